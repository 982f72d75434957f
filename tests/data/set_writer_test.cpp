#include "import/set_writer.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "sets.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::TempDir;

namespace {

std::size_t files_in(const TempDir& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++count;
  return count;
}

}  // namespace

TEST_CASE("an output that exists is kept, unless it may be overwritten", "[import]") {
  const TempDir folder;
  const std::string path = unisono::test::write_set(folder / "a.h5", {.train = 3});
  CHECK_THAT(unisono::test::message_of<unisono::OutputError>(
                 [&] { unisono::data::SetWriter(unisono::data::ImportOutput{.path = path}); }),
             Contains("a.h5: already exists") && Contains("--overwrite"));
  unisono::data::SetWriter writer({.path = path, .overwrite = true});
  writer.create_features<float>("train", 1, {1});
  CHECK(unisono::data::hdf5::File(path, unisono::data::hdf5::File::Mode::read).shape("train/features").rows() ==
        3);  // until it is finished
  writer.finish();
  CHECK(unisono::data::hdf5::File(path, unisono::data::hdf5::File::Mode::read).shape("train/features").rows() == 1);
  CHECK(files_in(folder) == 1);
}

TEST_CASE("what is no set is never replaced by one", "[import]") {
  const TempDir folder;
  unisono::test::write_file(folder / "table.csv", "a,b\n");
  CHECK_THAT(unisono::test::message_of<unisono::OutputError>(
                 [&] { unisono::data::SetWriter({.path = folder / "table.csv", .overwrite = true}); }),
             Contains("table.csv: exists and is not an HDF5 data set"));
}

TEST_CASE("what is not finished leaves nothing behind", "[import]") {
  const TempDir folder;
  {
    unisono::data::SetWriter writer({.path = folder / "a.h5"});
    writer.create_features<float>("train", 1, {1});
    CHECK(files_in(folder) == 1);
  }
  CHECK(files_in(folder) == 0);
}

TEST_CASE("an output folder is made, and one that cannot be made is named", "[import]") {
  const TempDir folder;
  { unisono::data::SetWriter(unisono::data::ImportOutput{.path = folder / "new/folder/a.h5"}); }
  CHECK(std::filesystem::is_directory(folder / "new/folder"));
  std::ofstream(folder / "file") << "no folder";
  CHECK_THAT(unisono::test::message_of<unisono::OutputError>(
                 [&] { unisono::data::SetWriter(unisono::data::ImportOutput{.path = folder / "file/a.h5"}); }),
             Contains("file/a.h5") && Contains("cannot be created") && Contains("folder"));
}
