#include "unisono/records/progress.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <limits>
#include <thread>

namespace unisono::records {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("times are written for people", "[progress]") {
  CHECK(clock_text(0.4) == "0:00");
  CHECK(clock_text(59.6) == "1:00");
  CHECK(clock_text(3723) == "1:02:03");
  CHECK(clock_text(-1) == "0:00");
}

TEST_CASE("a rate is never written as zero", "[progress]") {
  CHECK(rate_text(12345.4) == "12,345");
  CHECK(rate_text(10) == "10");
  CHECK(rate_text(0.0424) == "0.042");
}

TEST_CASE("lines are shown of reports, the first one early, and without a report only now and then", "[progress]") {
  Log log(0, false);
  Progress progress(Progress::Kind::lines, log), none(Progress::Kind::none, log);
  CHECK_FALSE(progress.is_due(true));  // nothing of a run that is shorter than a second
  CHECK_FALSE(none.is_due(true));
  std::this_thread::sleep_for(std::chrono::milliseconds(1050));
  CHECK(progress.is_due(false));
  CHECK_FALSE(none.is_due(true));
  progress.show({.step = 1, .steps = 2, .examples_per_second = 5});
  CHECK_FALSE(progress.is_due(true));
}

TEST_CASE("the bar says where the run stands, and never wraps", "[progress]") {
  const Position position{
      .epoch = 2, .epochs = 4, .step = 50, .steps = 100, .loss = 0.5, .examples_per_second = 12345, .seconds_left = 61};
  CHECK(bar_text(position, 200) ==
        "[============            ] epoch 2/4  step 50/100  loss 0.5  12,345 examples/s  1:01 left");
  CHECK(bar_text(position, 40).size() == 39);
  Position of_tokens = position;
  of_tokens.tokens_per_example = 64;
  CHECK(bar_text(of_tokens, 200).ends_with("  12,345 examples/s, 790,080 tokens/s  1:01 left"));
  CHECK(bar_text({.steps = 0, .loss = std::numeric_limits<double>::quiet_NaN()}, 200).find("loss") ==
        std::string::npos);
}

}  // namespace
}  // namespace unisono::records
