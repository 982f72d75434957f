#include "unisono/trials/trial_plan.hpp"

#include <catch2/catch.hpp>
#include <limits>

namespace unisono::trials {
namespace {

TEST_CASE("the median rule ends a training whose best loss is above the median of the others' means", "[median_rule]") {
  MedianRule rule;
  // Losses 1, 2, 3, 4 after the first epoch and 0 after the second: means 0.5, 1, 1.5, 2, of which the upper middle
  // is 1.5.
  for (std::int64_t trial = 0; trial < 4; ++trial) {
    CHECK(rule.goes_on({.trial = trial}, 1, static_cast<double>(trial + 1)));
    CHECK(rule.goes_on({.trial = trial}, 2, 0));
  }
  CHECK(rule.goes_on({.trial = 4}, 1, 3.0));        // the others' means up to epoch 1: 1 2 3 4
  CHECK_FALSE(rule.goes_on({.trial = 4}, 2, 1.6));  // its best is 1.6
  CHECK_FALSE(rule.goes_on({.trial = 5}, 1, 3.1));
  CHECK(rule.goes_on({.trial = 6}, 3, 99));  // nobody has come so far
}

TEST_CASE("an undefined metric is compared with none", "[median_rule]") {
  MedianRule rule;
  const double undefined = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t trial = 0; trial < 4; ++trial) CHECK(rule.goes_on({.trial = trial}, 1, undefined));
  CHECK(rule.goes_on({.trial = 4}, 1, 9));  // nobody to compare with
  for (std::int64_t trial = 5; trial < 8; ++trial) rule.goes_on({.trial = trial}, 1, 1);
  CHECK(rule.goes_on({.trial = 8}, 1, undefined));
  CHECK_FALSE(rule.goes_on({.trial = 9}, 1, 2));  // the others: 9, 1, 1, 1
}

TEST_CASE("folds of one trial do not judge each other", "[median_rule]") {
  MedianRule rule;
  for (std::int64_t fold = 0; fold < 6; ++fold) CHECK(rule.goes_on({.trial = 0, .fold = fold}, 1, double(fold)));
}

}  // namespace
}  // namespace unisono::trials
