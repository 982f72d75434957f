#include "unisono/records/recorded_times.hpp"

#include <catch2/catch.hpp>
#include <fstream>

#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::records {
namespace {

using Catch::Matchers::Contains;
using testing::ScratchFolder;

constexpr const char* kKey = "simulation.gradient_times";

std::string file_of(const ScratchFolder& folder, const std::string& text) {
  const std::string path = folder.path("times.jsonl");
  std::ofstream(path) << text;
  return path;
}

TEST_CASE("gradients' times are read as they were written", "[recorded_times]") {
  const ScratchFolder folder;
  const std::string path = folder.path("gradients.jsonl");
  write_gradient_times(path, std::vector<GradientTime>{{.rank = 2, .begin = 0.5, .seconds = 0.25},
                                                       {.rank = 0, .begin = 0.125, .seconds = 1e-9},
                                                       {.rank = 2, .begin = 1, .seconds = 0.75}});
  CHECK(read_gradient_times(path, kKey) == std::vector<std::vector<double>>{{1e-9}, {}, {0.25, 0.75}});
}

TEST_CASE("messages' times are ordered by their seconds, and equal ones stay as they are", "[recorded_times]") {
  const ScratchFolder folder;
  const std::string path = folder.path("messages.jsonl");
  write_message_times(path, std::vector<comm::Arrival>{{.from = 0, .to = 1, .tag = 5, .seconds = 3},
                                                       {.from = 1, .to = 0, .tag = 6, .seconds = 2},
                                                       {.from = 2, .to = 0, .tag = 4, .seconds = 2}});
  const std::vector<comm::Arrival> read = read_message_times(path, kKey);
  REQUIRE(read.size() == 3);
  CHECK(read[0].from == 1);
  CHECK(read[1].from == 2);
  CHECK((read[2].to == 1 && read[2].tag == 5 && read[2].seconds == 3));
}

TEST_CASE("failures are ordered, and ranks that are not named start at once", "[recorded_times]") {
  const ScratchFolder folder;
  CHECK(read_failure_times(file_of(folder, "{\"seconds\": 3}\n\n{\"seconds\": 1.5}"), kKey) ==
        std::vector<double>{1.5, 3});
  CHECK(read_start_times(file_of(folder, "{\"rank\": 2, \"seconds\": 7, \"why\": \"slow disk\"}"), kKey) ==
        std::vector<double>{0, 0, 7});
}

TEST_CASE("lines that are not as they should be are named", "[recorded_times]") {
  const ScratchFolder folder;
  const auto refused = [&](const std::string& text, const std::string& words) {
    CHECK_THROWS_WITH(read_gradient_times(file_of(folder, text), kKey), Contains(words) && Contains(kKey));
    CHECK_THROWS_AS(read_gradient_times(file_of(folder, text), kKey), DataError);
  };
  refused("", "has no line");
  refused("{\"rank\": 0, \"seconds\": 1}\n[1]\n", "times.jsonl:2: it is no JSON object");
  refused("{\"rank\": 0, \"seconds\": 1e300}", "must be between 0 and 1e9 seconds");
  refused("{\"rank\": -1, \"seconds\": 1}", "\"rank\" is -1, but must be an integer");
  refused("{\"rank\": 99999999999999999999, \"seconds\": 1}", "must be an integer");
  refused("{\"seconds\": 1}", "it has no number \"rank\"");
  CHECK_THROWS_WITH(read_gradient_times(folder.path("none"), kKey), Contains("cannot be read: No such file"));
}

}  // namespace
}  // namespace unisono::records
