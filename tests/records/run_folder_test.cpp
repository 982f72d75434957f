#include "unisono/records/run_folder.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>

#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::records {
namespace {

using Catch::Matchers::Contains;
using testing::bytes_of;
using testing::ScratchFolder;

TEST_CASE("a folder with results is refused, with what to do, and stays as it is", "[run_folder]") {
  const ScratchFolder scratch;
  scratch.file("summary.json", "{}");
  CHECK_THROWS_AS(RunFolder(scratch.path(), Existing::refuse), OutputError);
  CHECK_THROWS_WITH(RunFolder(scratch.path(), Existing::refuse),
                    Contains("--resume") && Contains("--overwrite") && Contains("--output"));
  CHECK(testing::bytes_of(scratch.path("summary.json")) == "{}");
}

TEST_CASE("overwriting removes a run's results when told to, and nothing else", "[run_folder]") {
  const ScratchFolder scratch;
  scratch.file("summary.json", "{}");
  scratch.file("notes.txt", "mine");
  std::filesystem::create_directory(scratch.path("checkpoints"));
  scratch.file("checkpoints/step-000000001.h5", "");
  const RunFolder folder(scratch.path(), Existing::overwrite);
  CHECK(std::filesystem::exists(folder.summary()));  // not before the new run is sure to begin
  folder.clear();
  CHECK_FALSE(std::filesystem::exists(folder.summary()));
  CHECK_FALSE(std::filesystem::exists(checkpoints_of(folder.path())));
  CHECK(testing::bytes_of(scratch.path("notes.txt")) == "mine");
}

TEST_CASE("a folder is made with those above it, and goes again where the run came to nothing", "[run_folder]") {
  const ScratchFolder scratch;
  {
    const RunFolder folder(scratch.path("a/b"), Existing::refuse);
    CHECK(std::filesystem::is_directory(scratch.path("a/b")));
    std::filesystem::create_directory(checkpoints_of(folder.path()));
    std::ofstream(folder.log()).flush();
  }
  CHECK_FALSE(std::filesystem::exists(scratch.path("a/b")));
  {
    const RunFolder folder(scratch.path("a/b"), Existing::refuse);
    write_text_file(folder.config(), "name = \"b\"");
  }
  CHECK(testing::bytes_of(scratch.path("a/b/config.toml")) == "name = \"b\"");
}

TEST_CASE("there must be something to resume", "[run_folder]") {
  const ScratchFolder scratch;
  CHECK_THROWS_AS(RunFolder(scratch.path("none"), Existing::resume), CheckpointError);
  CHECK_FALSE(std::filesystem::exists(scratch.path("none")));
}

TEST_CASE("two runs never write to one folder", "[run_folder]") {
  const ScratchFolder scratch;
  std::optional<RunFolder> first(std::in_place, scratch.path("a"), Existing::refuse);
  write_text_file(first->config(), "");
  CHECK_THROWS_WITH(RunFolder(scratch.path("a"), Existing::resume), Contains("another run is writing there"));
  first.reset();
  CHECK_NOTHROW(RunFolder(scratch.path("a"), Existing::resume));
}

TEST_CASE("a folder that cannot be made is an output error with the reason", "[run_folder]") {
  const ScratchFolder scratch;
  scratch.file("file", "");
  CHECK_THROWS_AS(RunFolder(scratch.path("file/run"), Existing::refuse), OutputError);
  CHECK_THROWS_WITH(RunFolder(scratch.path("file/run"), Existing::refuse), Contains("Not a directory"));
}

TEST_CASE("a text file is replaced as a whole or not at all", "[run_folder]") {
  const ScratchFolder scratch;
  write_text_file(scratch.path("a"), "old");
  std::filesystem::create_directory(scratch.path("a.tmp"));
  CHECK_THROWS_AS(write_text_file(scratch.path("a"), "new"), OutputError);
  CHECK(read_text_file(scratch.path("a")) == "old");
  CHECK_THROWS_AS(read_text_file(scratch.path("none")), OutputError);
}

}  // namespace
}  // namespace unisono::records
