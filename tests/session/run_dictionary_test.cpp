#include "unisono/session/run_checks.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::session {
namespace {

using Catch::Matchers::Contains;
using testing::bytes_of;
using testing::ScratchFolder;

void write_words(const std::string& path, const std::string& word) {
  data::write_dictionary(path, {{.table = "words", .names = {word}, .counts = {1}}});
}

std::string first_word(const StoredCheckpoint& checkpoint, const settings::Config& config) {
  return dictionary_of(checkpoint, config).at(0).names.at(0);
}

TEST_CASE("a run keeps its set's names once", "[run_dictionary]") {
  const ScratchFolder folder;
  write_words(folder.path("set.h5"), "first");
  keep_dictionary({.path = folder.path("set.h5")}, folder.path("dictionary.h5"));
  const std::string kept = testing::bytes_of(folder.path("dictionary.h5"));
  write_words(folder.path("set.h5"), "second");
  keep_dictionary({.path = folder.path("set.h5")}, folder.path("dictionary.h5"));
  CHECK(testing::bytes_of(folder.path("dictionary.h5")) == kept);
  CHECK(data::read_dictionary(folder.path("dictionary.h5")).at(0).names.at(0) == "first");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);  // nothing was left aside
}

TEST_CASE("a checkpoint finds its names above it, beside it, or in its set", "[run_dictionary]") {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder.path("run/checkpoints"));
  StoredCheckpoint checkpoint;
  checkpoint.path = folder.path("run/checkpoints/best.h5");
  settings::Config config;
  config.data.path = folder.path("set.h5");
  CHECK_THROWS_WITH(dictionary_of(checkpoint, config), Contains("best.h5: its run's dictionary.h5 is missing") &&
                                                           Contains("set.h5: there is no such file"));
  write_words(folder.path("set.h5"), "set");
  CHECK(first_word(checkpoint, config) == "set");
  write_words(folder.path("run/checkpoints/dictionary.h5"), "beside");
  CHECK(first_word(checkpoint, config) == "beside");
  write_words(folder.path("run/dictionary.h5"), "above");
  CHECK(first_word(checkpoint, config) == "above");
}

TEST_CASE("… and takes no others for them", "[run_dictionary]") {
  const ScratchFolder folder;
  std::filesystem::create_directories(folder.path("run/checkpoints"));
  settings::Config config;
  config.data.path = folder.path("set.h5");
  write_words(folder.path("set.h5"), "right");
  StoredCheckpoint checkpoint;
  checkpoint.path = folder.path("run/checkpoints/best.h5");
  checkpoint.header.names = keep_dictionary(config.data, folder.path("kept.h5"));
  CHECK(checkpoint.header.names != 0);
  CHECK(checkpoint.header.names == keep_dictionary(config.data, folder.path("kept.h5")));  // as it was kept
  write_words(folder.path("run/dictionary.h5"), "wrong");
  CHECK(first_word(checkpoint, config) == "right");
  write_words(folder.path("run/checkpoints/dictionary.h5"), "right");
  write_words(folder.path("set.h5"), "wrong");
  CHECK(first_word(checkpoint, config) == "right");
  std::filesystem::remove(folder.path("run/checkpoints/dictionary.h5"));
  CHECK_THROWS_WITH(dictionary_of(checkpoint, config), Contains("set.h5 has different names now"));
}

}  // namespace
}  // namespace unisono::session
