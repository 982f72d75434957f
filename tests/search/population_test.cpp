#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "search_helpers.hpp"

namespace unisono::search {
namespace {

const std::string kKeys = "method = \"population\"\nexploit_every_epochs = 3\nexploited_fraction = 0.25\ntrials = ";

/// The rule of truncation selection, checked from the events alone.
class PopulationReferee {
 public:
  void see(const SearchEvent& event) {
    const std::int64_t trial = event.step.trial;
    if (!event.is_start) {
      ended_[event.step.epochs].emplace_back(event.loss, trial);
      epochs_[trial] = event.step.epochs;
      return;
    }
    const std::int64_t before = epochs_[trial];
    CHECK(event.step.epochs == before + 3);
    auto ranking = ended_[before];
    std::ranges::sort(ranking);
    const auto count = static_cast<std::ptrdiff_t>(ranking.size() / 4);
    const auto rank_of = [&](std::int64_t other) {
      return std::ranges::find(ranking, other, &std::pair<double, std::int64_t>::second) - ranking.begin();
    };
    const auto size = static_cast<std::ptrdiff_t>(ranking.size());
    if (event.step.copied) {
      CHECK(rank_of(*event.step.copied) < count);
      CHECK(rank_of(trial) >= size - count);
      CHECK(epochs_[*event.step.copied] == before);  // no later step of it has ended
      ++copies;
    } else if (before > 0 && rank_of(trial) >= size - count) {
      for (std::ptrdiff_t i = 0; i < count; ++i) CHECK(epochs_[ranking[static_cast<std::size_t>(i)].second] != before);
    }
  }
  int copies = 0;

 private:
  std::map<std::int64_t, std::vector<std::pair<double, std::int64_t>>> ended_;  ///< by epochs
  std::map<std::int64_t, std::int64_t> epochs_;                                 ///< by trial
};

TEST_CASE("a population copies only from the best to the worst of those trained as long", "[search]") {
  const std::size_t workers = GENERATE(1U, 3U, 8U, 16U);
  for (const std::uint64_t order : {1U, 2U, 3U}) {
    const auto method = method_of(kKeys + "16", order);
    const auto events = simulate(*method, workers, quadratic, order_of(order));
    PopulationReferee referee;
    for (const SearchEvent& event : events) referee.see(event);
    CHECK(method->is_complete());
    CHECK(method->depends_on_timing());
    CHECK(events.size() == 2 * 16 * 9);  // all trials are trained to the end: 27 epochs in steps of 3
    CHECK(referee.copies > 0);
    // One worker: at each of 8 levels all 16 have got there before the first goes on, and the 4 worst copy.
    if (workers == 1) CHECK(referee.copies == 8 * 4);
  }
}

TEST_CASE("a copy has the values of its source, each number times 0.8 or 1.2 within its range", "[search]") {
  const auto method = method_of(kKeys + "8");
  std::map<std::int64_t, std::map<std::int64_t, Point>> points;  // by trial, epochs
  std::map<std::int64_t, std::int64_t> epochs;
  int copies = 0;
  const auto loss = [&](const SearchStep& step, const Point& point) {
    if (step.copied) {
      ++copies;
      const Point& source = points.at(*step.copied).at(epochs[step.trial]);
      for (std::size_t i = 0; i < 2; ++i) {
        const double up = std::min(1.2 * source[i], 1.0), down = 0.8 * source[i];
        CHECK(std::min(std::abs(point[i] - up), std::abs(point[i] - down)) < 1e-5);  // six digits
      }
    } else if (epochs[step.trial] > 0) {
      CHECK(point == points.at(step.trial).at(epochs[step.trial]));
    }
    epochs[step.trial] = step.epochs;
    points[step.trial][step.epochs] = point;
    return quadratic(step, point);
  };
  simulate(*method, 3, loss, order_of(1));
  CHECK(copies > 4);
}

TEST_CASE("what may change the form of the weights goes with them as it is", "[search]") {
  const SearchSettings settings = search_settings(R"([search]
    method = "population"
    trials = 8
    exploited_fraction = 0.5
    [search.space]
    "optimizer" = [{ kind = "sgd", momentum = { linear = [0.1, 0.9] } }, { kind = "adamw" }]
    "model.layers[0].units" = { integers = [8, 64] }
    "model.layers[1].units" = [8, 16, 32]
    "model.layers[2].rate" = { linear = [0.1, 0.9] }
    "train.batch_size" = { integers = [8, 64], step = 8 }
    "schedule.kind" = ["constant", "cosine"]
    "data.noise" = [1, 2, 3, 4])");
  const Space space(settings.space);
  const auto method = make_search_method(settings, space, 3, 40);
  std::vector<Point> before(8), after(8);
  std::set<std::size_t> changed;
  const auto loss = [&](const SearchStep& step, const Point& point) {
    if (step.copied) {
      // With one worker, a source still has the point of the step in which it was ranked.
      const Point source = method->point(*step.copied);
      for (const std::size_t i : {0U, 2U, 3U, 6U}) CHECK(point[i] == source[i]);
      for (const std::size_t i : {1U, 4U, 5U, 7U}) {
        const Parameter& p = space.parameters()[i];
        if (point[i] != source[i]) changed.insert(i);
        CHECK(p.place_of(p.at(point[i])));
        if (i == 7) CHECK(std::abs(p.index(point[i]) - p.index(source[i])) <= 1);
      }
    }
    return std::abs(point[4] - 0.5) + std::abs(point[5] - 0.5);
  };
  simulate(*method, 1, loss, order_of(1));
  CHECK(changed == std::set<std::size_t>{1, 4, 5, 7});
}

TEST_CASE("a trial that failed goes on as a copy", "[search]") {
  const auto loss = [](const SearchStep& step, const Point& point) {
    const bool fails = step.epochs == 6 && step.trial < 3;
    return fails ? std::numeric_limits<double>::infinity() : quadratic(step, point);
  };
  const auto method = method_of(kKeys + "8");
  for (const SearchEvent& event : simulate(*method, 2, loss, order_of(1))) {
    if (event.is_start && event.step.epochs == 9 && event.step.trial < 3) CHECK(event.step.copied);
  }
  CHECK(method->is_complete());
}

TEST_CASE("a population finds better values than it began with", "[search]") {
  // The loss is the values' alone: of the best of 16 random points and of the best of the population at the end.
  const auto loss = [](const SearchStep&, const Point& point) { return quadratic({}, point); };
  int better = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto method = method_of(kKeys + "16", seed, 60);
    double first = 1, last = 1;
    for (std::int64_t trial = 0; trial < 16; ++trial) first = std::min(first, loss({}, method->point(trial)));
    for (const SearchEvent& event : simulate(*method, 4, loss, order_of(seed))) {
      if (event.step.epochs == 60 && !event.is_start) last = std::min(last, event.loss);
    }
    CHECK(last <= first);  // the best is never replaced
    better += last < first / 2 ? 1 : 0;
  }
  CHECK(better > 10);
}

TEST_CASE("a population in which nothing could be taken over is refused", "[search]") {
  CHECK(complaint_of([] { method_of("method = \"population\"\ntrials = 4"); }) ==
        "search.exploited_fraction = 0.2 of search.trials = 4 is less than one trial, so that none would take over "
        "weights; use more trials, or a larger fraction");
  CHECK(complaint_of([] { method_of("method = \"population\"\ntrials = 8\nexploit_every_epochs = 27"); }) ==
        "search.exploit_every_epochs = 27 is not below train.epochs = 27: no trial would ever take over weights; lower "
        "it, or train for longer");
}

}  // namespace
}  // namespace unisono::search
