#include "model/new_file.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::apply {
namespace {

using Catch::Matchers::Contains;
using testing::bytes_of;
using testing::ScratchFolder;

void write_new_file(const std::string& path, Replace replace, std::string_view text) {
  NewFile file(path, replace);
  file.write(text);
  file.finish();
}

TEST_CASE("a file appears when it is finished, and not before", "[new_file]") {
  const ScratchFolder folder;
  const std::string path = folder.path("a.txt");
  {
    NewFile file(path, Replace::nothing);
    file.write("half");
    CHECK_FALSE(std::filesystem::exists(path));
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  write_new_file(path, Replace::nothing, "whole");
  CHECK(testing::bytes_of(path) == "whole");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a file that is there is replaced only where that was asked for", "[new_file]") {
  const ScratchFolder folder;
  const std::string path = folder.file("a.txt", "2 3\nearlier");
  CHECK_THROWS_WITH(NewFile(path, Replace::nothing),
                    Contains("a.txt: already exists; choose another --output, or add --overwrite"));
  CHECK(testing::bytes_of(path) == "2 3\nearlier");
  write_new_file(path, Replace::exports, "later");
  CHECK(testing::bytes_of(path) == "later");
}

TEST_CASE("a file that is no export is not replaced", "[new_file]") {
  const ScratchFolder folder;
  for (const char* other : {"a,b,label\n1,2,x\n", "[data]\npath = \"t.h5\"\n", "2 3 4\n", "PK,x\n", "x"}) {
    const std::string path = folder.file("a.csv", other);
    CHECK_THROWS_WITH(NewFile(path, Replace::exports), Contains("a.csv: exists and is not an exported file"));
    CHECK(testing::bytes_of(path) == other);
    write_new_file(path, Replace::anything, "later");
    CHECK(testing::bytes_of(path) == "later");
  }
  for (const char* own : {"name,x0,x1\ncat,1,2\n", "\x93NUMPY", "PK\x03\x04", "2 3\ncat 1 2 3\n", ""}) {
    write_new_file(folder.file("b.csv", own), Replace::exports, "later");
    CHECK(testing::bytes_of(folder.path("b.csv")) == "later");
  }
}

TEST_CASE("what cannot be written is said", "[new_file]") {
  const ScratchFolder folder;
  CHECK_THROWS_WITH(NewFile(folder.path("none/a.txt"), Replace::nothing),
                    Contains("none/a.txt: cannot be written: No such file or directory"));
}

}  // namespace
}  // namespace unisono::apply
