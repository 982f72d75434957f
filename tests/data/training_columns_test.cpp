#include "unisono/data/dataset.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "sparse_sets.hpp"
#include "unisono/data/import.hpp"

using namespace unisono;
using namespace unisono::test;
using Catch::Contains;
using Column = std::vector<std::int64_t>;

TEST_CASE("columns of a table say which group, time or fold a row has", "[folds]") {
  const TempDir folder;
  write_file(folder / "t.csv",
             "x,colour,patient,day,y,fold\n1.5,red,bob,2024-02-29,1,2\n2,blue,ann,2024-01-01,0,-1\n"
             "0.5,red,ann,2023-05-05,1,1\n1.5,green,cid,2025-01-01,0,2\n");
  data::import_csv(folder / "t.csv", {.label = "y", .group = "patient", .time = "day"}, {.path = folder / "t.h5"});
  const std::string path = folder / "t.h5";
  CHECK(data::count_training_rows({.path = path}) == 4);
  CHECK(data::read_training_labels({.path = path}) == std::vector<std::int32_t>{1, 0, 1, 0});
  const Column groups = data::read_training_column({.path = path}, "groups");
  REQUIRE(groups.size() == 4);
  CHECK((groups[1] == groups[2] && groups[0] != groups[1] && groups[3] != groups[0] && groups[3] != groups[1]));
  const Column times = data::read_training_column({.path = path}, "times");
  CHECK((times[2] < times[1] && times[1] < times[0] && times[0] < times[3]));
  CHECK(data::read_training_column({.path = path}, "fold") == Column{2, -1, 1, 2});
  CHECK(data::read_training_column({.path = path}, "x") == Column{1, 2, 0, 1});  // ascending numbers of 0.5, 1.5, 2
  CHECK(data::read_training_column({.path = path}, "colour") == Column{2, 0, 2, 1});  // blue, green, red
  const auto refusal = [&](const std::string& name) {
    return message_of<DataError>([&] { data::read_training_column({.path = path}, name); });
  };
  CHECK_THAT(refusal("color"), Contains("no column 'color'") && Contains("is it 'colour'?"));
  CHECK_THAT(refusal("features"), Contains("must hold 4 numbers or texts"));
}

TEST_CASE("columns of sparse rows and ratings are datasets of their group", "[folds]") {
  const TempDir folder;
  {
    data::hdf5::File file(folder / "rows.h5", data::hdf5::File::Mode::create);
    write_rows_group(file, "train", 3, true);
    file.write_strings("train/site", {"b", "a", "b"});
    file.write("train/short", std::vector<std::int64_t>{1, 2});
    file.write("train/weight", std::vector<double>{0.5, std::nan(""), 1});
  }
  const std::string path = folder / "rows.h5";
  CHECK(data::count_training_rows({.path = path}) == 3);
  CHECK(data::read_training_labels({.path = path}).empty());
  CHECK(data::read_training_column({.path = path}, "site") == Column{1, 0, 1});
  CHECK_THROWS_WITH(data::read_training_column({.path = path}, "short"), Contains("one for each training example"));
  CHECK_THROWS_WITH(data::read_training_column({.path = path}, "weight"), Contains("example 1 has no value"));
  CHECK_THROWS_WITH(data::read_training_column({.path = path}, "sites"), Contains("has no dataset /train/sites"));
  {
    data::hdf5::File file(folder / "ratings.h5", data::hdf5::File::Mode::create);
    write_ratings_group(file, "train", 30);
  }
  CHECK(data::read_training_column({.path = folder / "ratings.h5"}, "users").size() == 30);
}
