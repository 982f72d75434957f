#include "import/set_writer.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "sets.hpp"

using namespace unisono;
using namespace unisono::data;
using Catch::Contains;
using test::TempDir;

namespace {

std::size_t files_in(const TempDir& folder) {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++count;
  return count;
}

}  // namespace

TEST_CASE("an output that exists is kept, unless it may be overwritten", "[import]") {
  const TempDir folder;
  test::write_file(folder / "a.h5", "precious");
  CHECK_THAT(test::message_of<OutputError>([&] { SetWriter(ImportOutput{.path = folder / "a.h5"}); }),
             Contains("a.h5: exists already") && Contains("--overwrite"));
  SetWriter writer({.path = folder / "a.h5", .overwrite = true});
  writer.create_features<float>("train", 1, {1});
  CHECK_FALSE(hdf5::is_hdf5(folder / "a.h5"));  // until it is finished
  writer.finish();
  CHECK(hdf5::is_hdf5(folder / "a.h5"));
  CHECK(files_in(folder) == 1);
}

TEST_CASE("what is not finished leaves nothing behind", "[import]") {
  const TempDir folder;
  {
    SetWriter writer({.path = folder / "a.h5"});
    writer.create_features<float>("train", 1, {1});
    CHECK(files_in(folder) == 1);
  }
  CHECK(files_in(folder) == 0);
}

TEST_CASE("an output folder is made, and one that cannot be made is named", "[import]") {
  const TempDir folder;
  { SetWriter(ImportOutput{.path = folder / "new/folder/a.h5"}); }
  CHECK(std::filesystem::is_directory(folder / "new/folder"));
  std::ofstream(folder / "file") << "no folder";
  CHECK_THAT(test::message_of<OutputError>([&] { SetWriter(ImportOutput{.path = folder / "file/a.h5"}); }),
             Contains("file/a.h5") && Contains("cannot be created") && Contains("folder"));
}
