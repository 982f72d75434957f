#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "recommend/recommender.hpp"
#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::apply {
namespace {

using Catch::Matchers::Contains;
using testing::bytes_of;
using testing::ScratchFolder;

const std::vector<std::string> kUsers = {"ann", "bob, jr."}, kItems = {"tea", "coffee"};

/// Two users; the first has but one item left.
void write_two(const std::string& path, bool overwrite = false) {
  const auto sink = make_recommendation_sink(
      {.path = path, .users = 2, .top = 2, .user_names = kUsers, .item_names = kItems, .overwrite = overwrite});
  sink->write(std::vector<std::int32_t>{1}, std::vector<Recommendation>{{0, 4.5F}, {}});
  sink->write(std::vector<std::int32_t>{0}, std::vector<Recommendation>{{1, 3}, {0, -1}});
  sink->finish();
}

TEST_CASE("a table of recommendations has a line for each", "[recommendation_sink]") {
  const ScratchFolder folder;
  for (const bool overwrite : {false, true}) {
    write_two(folder.path("top.csv"), overwrite);
    CHECK(testing::bytes_of(folder.path("top.csv")) ==
          "user,rank,item,score\n\"bob, jr.\",1,tea,4.5\nann,1,coffee,3\nann,2,tea,-1\n");
  }
  CHECK_THROWS_WITH(write_two(folder.path("top.csv")), Contains("already exists"));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("an HDF5 file of recommendations has a row for each user", "[recommendation_sink]") {
  const ScratchFolder folder;
  for (const bool overwrite : {false, true}) write_two(folder.path("top.h5"), overwrite);
  const data::hdf5::File file(folder.path("top.h5"), data::hdf5::File::Mode::read);
  CHECK(file.read<std::int32_t>("users") == std::vector<std::int32_t>{1, 0});
  CHECK(file.read<std::int32_t>("items") == std::vector<std::int32_t>{0, -1, 1, 0});
  const auto scores = file.read<float>("scores");
  CHECK(scores[0] == 4.5F);
  CHECK(std::isnan(scores[1]));
  CHECK(file.read_strings("dictionary/users") == kUsers);
  CHECK(file.read_strings("dictionary/items") == kItems);
}

TEST_CASE("other files are left alone", "[recommendation_sink]") {
  const ScratchFolder folder;
  const std::string path = folder.file("ratings.csv", "user,item,rating\n");
  CHECK_THROWS_AS(write_two(path, true), OutputError);
  CHECK_THROWS_WITH(write_two(path, true), Contains("exists and does not hold predictions, so it is not replaced"));
  CHECK(testing::bytes_of(path) == "user,item,rating\n");
}

}  // namespace
}  // namespace unisono::apply
