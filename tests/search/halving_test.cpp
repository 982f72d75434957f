#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rung.hpp"
#include "search_helpers.hpp"

namespace unisono::search {
namespace {

/// A loss that fails for a tenth of the trials, and is the same for some.
double rough(const SearchStep& step, const Point& point) {
  if (point[0] < 0.1) return std::numeric_limits<double>::infinity();
  return std::round(10 * quadratic(step, point));
}

/// ASHA's rule, checked from the events alone.
class RungReferee {
 public:
  RungReferee(std::vector<std::int64_t> epochs, std::int64_t eta) : epochs_(std::move(epochs)), eta_(eta) {}

  void see(const SearchEvent& event) {
    const auto k = static_cast<std::size_t>(std::ranges::find(epochs_, event.step.epochs) - epochs_.begin());
    REQUIRE(k < epochs_.size());
    if (!event.is_start) {
      ended_[k].emplace_back(event.loss, event.step.trial);
      return;
    }
    for (std::size_t j = epochs_.size() - 1; j > k; --j) CHECK(promotable(j - 1).empty());  // the highest rung first
    if (k == 0) {
      CHECK(event.step.trial == trials++);
    } else {
      const auto legal = promotable(k - 1);
      CHECK(legal.contains(event.step.trial));
      gone_on_.insert({k - 1, event.step.trial});
      ++promotions;
    }
  }
  std::int64_t size(std::size_t k) { return static_cast<std::int64_t>(ended_[k].size()); }

  std::int64_t trials = 0, promotions = 0;

 private:
  std::set<std::int64_t> promotable(std::size_t k) {
    auto ranking = ended_[k];
    std::ranges::sort(ranking);
    ranking.resize(ranking.size() / static_cast<std::size_t>(eta_));
    std::set<std::int64_t> trials_of_rung;
    for (const auto& [loss, trial] : ranking) {
      if (std::isfinite(loss) && !gone_on_.contains({k, trial})) trials_of_rung.insert(trial);
    }
    return trials_of_rung;
  }

  std::vector<std::int64_t> epochs_;
  std::int64_t eta_;
  std::map<std::size_t, std::vector<std::pair<double, std::int64_t>>> ended_;
  std::set<std::pair<std::size_t, std::int64_t>> gone_on_;
};

TEST_CASE("every trial that ASHA lets go on is among the best 1/eta of its rung at that time", "[search]") {
  const std::size_t workers = GENERATE(1U, 3U, 8U);
  const auto loss = GENERATE(LossOf(quadratic), LossOf(rough));
  for (const std::uint64_t order : {1U, 2U, 3U}) {
    const auto method = method_of("method = \"halving\"\ntrials = 81", order);
    const auto events = simulate(*method, workers, loss, order_of(order));
    RungReferee referee({1, 3, 9, 27}, 3);
    for (const SearchEvent& event : events) referee.see(event);
    CHECK(method->is_complete());
    CHECK(method->depends_on_timing());
    CHECK(referee.trials == 81);
    CHECK(referee.size(1) >= 27);  // in the end at least the best 1/3
    CHECK(referee.size(3) >= 3);
    CHECK(referee.promotions == referee.size(1) + referee.size(2) + referee.size(3));
  }
}

TEST_CASE("more trials of ASHA go on from where it ended", "[search]") {
  const auto events = simulate(*method_of("method = \"halving\"\ntrials = 30"), 3, quadratic, order_of(1));
  const auto more = method_of("method = \"halving\"\ntrials = 50");
  for (const SearchEvent& event : as_journal(events)) apply(*more, event);
  CHECK(more->next() == SearchStep{.trial = 30, .epochs = 1});
}

TEST_CASE("the rungs end with train.epochs, and begin at least_epochs or later", "[search]") {
  const auto epochs = [](std::int64_t all, std::int64_t least, std::int64_t eta) {
    std::vector<std::int64_t> found;
    for (const Rung& rung : make_rungs(all, least, eta)) found.push_back(rung.epochs());
    return found;
  };
  CHECK(epochs(27, 1, 3) == std::vector<std::int64_t>{1, 3, 9, 27});
  CHECK(epochs(20, 1, 3) == std::vector<std::int64_t>{2, 6, 20});
  CHECK(epochs(100, 10, 2) == std::vector<std::int64_t>{12, 25, 50, 100});
  CHECK(complaint_of([&] { epochs(5, 3, 2); }) ==
        "search.method trains the better trials for 2 times as long, and at first for at least 3 epochs "
        "(search.least_epochs = 3), but train.epochs = 5 leaves no room for that: raise train.epochs, or lower "
        "search.least_epochs or search.reduction_factor");
}

TEST_CASE("ASHA with too few trials to train one to the end is refused", "[search]") {
  CHECK(complaint_of([] { method_of("method = \"halving\"\ntrials = 26"); }) ==
        "search.trials = 26 are too few: one in 3 goes on from each of 3 rungs, so that none would be trained to the "
        "end; use at least 27 trials, or raise search.least_epochs");
  CHECK(complaint_of([] { method_of("method = \"halving\"\ntrials = 27"); }) == "");
}

/// How many steps there are of each length, and which trials they are of.
std::map<std::int64_t, std::set<std::int64_t>> steps_of(const std::vector<SearchEvent>& events) {
  std::map<std::int64_t, std::set<std::int64_t>> steps;
  for (const SearchEvent& event : events) {
    if (event.is_start) CHECK(steps[event.step.epochs].insert(event.step.trial).second);
  }
  return steps;
}

TEST_CASE("Hyperband's brackets are those of the paper's table", "[search]") {
  // Li et al. 2018, table 1: R = 81, eta = 3.
  //   s = 4: 81 27 9 3 1     s = 3: 34 11 3 1     s = 2: 15 5 1     s = 1: 8 2     s = 0: 5
  const auto method = method_of("method = \"hyperband\"", 1, 81);
  const auto steps = steps_of(simulate(*method, 4, quadratic, order_of(1)));
  CHECK(method->trials() == 81 + 34 + 15 + 8 + 5);
  CHECK(steps.at(1).size() == 81);
  CHECK(steps.at(3).size() == 27 + 34);
  CHECK(steps.at(9).size() == 9 + 11 + 15);
  CHECK(steps.at(27).size() == 3 + 3 + 5 + 8);
  CHECK(steps.at(81).size() == 1 + 1 + 1 + 2 + 5);
}

TEST_CASE("which trials go on in Hyperband does not depend on the order in which steps end", "[search]") {
  const auto loss = GENERATE(LossOf(quadratic), LossOf(rough));
  const std::string keys = "method = \"hyperband\"\ntrials = " + std::string(GENERATE("0", "9", "14", "17", "43"));
  const auto serial = steps_of(simulate(*method_of(keys, 1, 9), 1, loss, order_of(0)));
  for (const std::size_t workers : {2U, 7U, 30U}) {
    const auto method = method_of(keys, 1, 9);
    CHECK_FALSE(method->depends_on_timing());
    CHECK(steps_of(simulate(*method, workers, loss, order_of(workers))) == serial);
    CHECK(method->is_complete());
  }
}

TEST_CASE("the best of a bracket go on, and no others", "[search]") {
  const auto events = simulate(*method_of("method = \"hyperband\"\ntrials = 9", 1, 9), 3, quadratic, order_of(1));
  std::map<std::int64_t, std::vector<std::pair<double, std::int64_t>>> ended;
  for (const SearchEvent& event : events) {
    if (!event.is_start) ended[event.step.epochs].emplace_back(event.loss, event.step.trial);
  }
  std::ranges::sort(ended[1]);
  std::set<std::int64_t> best, gone_on;
  for (int i = 0; i < 3; ++i) best.insert(ended[1][static_cast<std::size_t>(i)].second);
  for (const auto& [loss, trial] : ended[3]) gone_on.insert(trial);
  CHECK(gone_on == best);
  REQUIRE(ended[9].size() == 1);
  CHECK(ended[9][0].second == std::ranges::min(ended[3]).second);
}

TEST_CASE("a trial goes on to the end of its bracket where all others failed", "[search]") {
  const auto loss = [](const SearchStep& step, const Point&) {
    return step.trial == 4 ? 1 : std::numeric_limits<double>::infinity();
  };
  const auto steps = steps_of(simulate(*method_of("method = \"hyperband\"\ntrials = 9", 1, 9), 3, loss, order_of(1)));
  CHECK(steps.at(3) == std::set<std::int64_t>{4});
  CHECK(steps.at(9) == std::set<std::int64_t>{4});
}

TEST_CASE("trials of Hyperband that end within a bracket are refused", "[search]") {
  const auto complaint = [](int trials) {
    return complaint_of([&] { method_of("method = \"hyperband\"\ntrials = " + std::to_string(trials), 1, 9); });
  };
  CHECK(complaint(11) ==
        "search.trials = 11 ends within a bracket, of which no trial could go on; use 9 or 14, or remove it for one "
        "pass over all brackets");
  CHECK(complaint(5) ==
        "search.trials = 5 ends within a bracket, of which no trial could go on; use 9, or remove it for one pass over "
        "all brackets");
}

}  // namespace
}  // namespace unisono::search
