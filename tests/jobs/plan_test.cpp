#include "unisono/trials/trial_plan.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "trials/dispatcher.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::jobs {
namespace {

/// Trials 0 … n − 1, each trained for 1 epoch, and then those with the lower half of the losses for 3.
class TwoRungs final : public search::SearchMethod {
 public:
  explicit TwoRungs(std::int64_t trials) : trials_(trials) {}

  std::optional<search::SearchStep> next() const override {
    if (begun_ < trials_) return search::SearchStep{.trial = begun_, .epochs = 1};
    if (std::ssize(losses_) < trials_) return std::nullopt;
    for (const auto& [loss, trial] : ranking()) {
      if (!promoted_.contains(trial)) return search::SearchStep{.trial = trial, .epochs = 3};
    }
    return std::nullopt;
  }
  void started(const search::SearchStep& step) override {
    step.epochs == 1 ? ++begun_ : (promoted_.insert(step.trial), 0);
  }
  void ended(const search::SearchStep& step, double loss) override {
    if (step.epochs == 1) losses_[step.trial] = loss;
    if (step.epochs == 3) ++ended_;
  }
  bool is_complete() const override { return ended_ == trials_ / 2; }
  search::Point point(std::int64_t trial) const override { return {static_cast<double>(trial) / 10}; }
  std::int64_t trials() const override { return trials_; }

 private:
  std::vector<std::pair<double, std::int64_t>> ranking() const {
    std::vector<std::pair<double, std::int64_t>> all;
    for (const auto& [trial, loss] : losses_) all.emplace_back(loss, trial);
    std::sort(all.begin(), all.end());
    all.resize(static_cast<std::size_t>(trials_ / 2));
    return all;
  }

  std::int64_t trials_, begun_ = 0, ended_ = 0;
  std::map<std::int64_t, double> losses_;
  std::set<std::int64_t> promoted_;
};

records::TrialResult result_of(const records::TrialRun& training) {
  const double distance = static_cast<double>((training.trial * 7) % 5);
  return {.value = distance + 0.01 * static_cast<double>(training.repeat) - static_cast<double>(training.epochs),
          .metrics = {{data::Split::validation, "loss", distance, false}},
          .seconds = 1};
}

trials::TrialPlan plan_of(std::int64_t trials, const trials::PlanShape& shape = {}) {
  return trials::TrialPlan(std::make_unique<TwoRungs>(trials), shape);
}

TEST_CASE("each step of a trial has a training for each seed and fold, and their mean counts", "[plan]") {
  trials::TrialPlan plan = plan_of(4, {.repeats = 2, .folds = 3});
  std::multiset<std::string> texts;
  while (const auto training = plan.next()) {
    plan.started(*training);
    texts.insert(training->text());
    plan.ended(*training, result_of(*training));
  }
  CHECK(plan.is_complete());
  CHECK(texts.size() == 4 * 6 + 2 * 6);
  CHECK(texts.count("trial 0, repeat 1, fold 2") == 2);  // at 1 epoch and at 3
  CHECK(texts.count("trial 1, repeat 1, fold 2") == 1);  // (1 · 7) mod 5 = 2 is in the upper half of 0 2 4 1
  CHECK(plan.best() == 0);
  CHECK(plan.trials().at(0).value == Approx(0.005 - 3));
  // Each of 0 and 0.01 three times: deviation √(6 · 0.005² / 5).
  CHECK(plan.trials().at(0).deviation == Approx(std::sqrt(6 * 0.005 * 0.005 / 5)));
}

TEST_CASE("the best trial is trained once more when all others have ended", "[plan]") {
  trials::TrialPlan plan = plan_of(2, {.refit = true});
  std::vector<records::TrialRun> all;
  while (const auto training = plan.next()) {
    plan.started(*training);
    all.push_back(*training);
    plan.ended(*training, result_of(*training));
  }
  CHECK(plan.is_complete());
  REQUIRE(all.size() == 4);
  CHECK(all.back() == records::TrialRun{.trial = 0, .epochs = 3, .refit = true});
  CHECK(plan.refitted());
}

TEST_CASE("without examples that say when to stop, a trial is trained for as long as the weights that it kept",
          "[plan]") {
  trials::TrialPlan plan = plan_of(2, {.folds = 4, .refit = true});
  std::optional<records::TrialRun> last;
  while (const auto training = plan.next()) {
    last = training;
    plan.started(*training);
    records::TrialResult result = result_of(*training);
    result.epochs = 3;
    if (training->fold == 1) result.kept_epochs = 1;
    if (training->fold == 2) result.kept_epochs = 2;
    plan.ended(*training, result);
  }
  REQUIRE(last);
  CHECK(*last == records::TrialRun{.trial = 0, .epochs = 2, .refit = true});  // (3 + 1 + 2 + 3) / 4 = 2.25
}

TEST_CASE("a search that goes on to more trials trains the best one of all of them once more", "[plan]") {
  std::vector<nlohmann::json> journal;
  const auto finish = [&](trials::TrialPlan& plan) {
    std::vector<std::string> texts;
    while (const auto training = plan.next()) {
      journal.push_back({{"started", to_json(*training)}});
      journal.push_back({{"ended", to_json(*training)}, {"result", to_json(result_of(*training))}});
      plan.started(*training);
      plan.ended(*training, result_of(*training));
      if (training->refit) texts.push_back(training->text());
    }
    return texts;
  };
  trials::TrialPlan plan = plan_of(2, {.refit = true});
  CHECK(finish(plan).size() == 1);
  trials::TrialPlan same = plan_of(2, {.refit = true}), more = plan_of(4, {.refit = true});
  replay(journal, same);
  CHECK(finish(same).empty());
  replay(journal, more);
  CHECK(finish(more).size() == 1);
}

TEST_CASE("a trial of which one training failed is no candidate, and says why", "[plan]") {
  trials::TrialPlan plan = plan_of(2, {.repeats = 2});
  while (const auto training = plan.next()) {
    plan.started(*training);
    records::TrialResult result = result_of(*training);
    if (training->trial == 0 && training->repeat == 1)
      result = {.status = records::TrialStatus::diverged, .message = "far"};
    plan.ended(*training, result);
  }
  CHECK(plan.best() == 1);
  CHECK(plan.trials().at(0).status == records::TrialStatus::diverged);
  CHECK(plan.trials().at(0).message == "far");
}

TEST_CASE("a metric that is undefined in one training of a trial has no mean in the table", "[plan]") {
  trials::TrialPlan plan = plan_of(2, {.repeats = 2});
  while (const auto training = plan.next()) {
    plan.started(*training);
    records::TrialResult result = result_of(*training);
    if (training->repeat == 0) result.metrics.push_back({data::Split::validation, "auc", 0.75, true});
    if (training->trial == 1) result.metrics.push_back({data::Split::validation, "accuracy", 0.5, true});
    if (training->trial == 0)
      result = {.status = records::TrialStatus::failed, .message = "validation auc is undefined"};
    plan.ended(*training, result);
  }
  const search::Space space;
  const trials::TrialTable table{.plan = plan, .space = space, .metric = "validation loss"};
  const nlohmann::ordered_json json = table.json(true);
  CHECK(json["trials"][0]["value"].is_null());
  CHECK(json["trials"][0]["deviation"].is_null());
  CHECK(json["trials"][1]["metrics"]["validation.accuracy"] == 0.5);
  CHECK_FALSE(json["trials"][1]["metrics"].contains("validation.auc"));
  CHECK_THAT(table.csv(), !Catch::Contains("auc,"));
}

TEST_CASE("a job that is killed at any entry of its journal goes on to the same table", "[plan]") {
  const auto table = [](const trials::TrialPlan& plan) {
    std::vector<std::tuple<std::int64_t, double, std::int64_t>> rows;
    for (const auto& [trial, record] : plan.trials()) rows.emplace_back(trial, record.value, record.step.epochs);
    return rows;
  };
  // Two at a time, and the one that began first ends first.
  const auto work = [](trials::TrialPlan& plan, std::vector<nlohmann::json>& journal, std::size_t entries) {
    std::vector<records::TrialRun> running;
    while (journal.size() < entries && !(plan.is_complete() && running.empty())) {
      const auto training = running.size() < 2 ? plan.next() : std::nullopt;
      if (training) {
        journal.push_back({{"started", to_json(*training)}});
        plan.started(*training);
        running.push_back(*training);
      } else {
        const records::TrialRun first = running.front();
        running.erase(running.begin());
        journal.push_back({{"ended", to_json(first)}, {"result", to_json(result_of(first))}});
        plan.ended(first, result_of(first));
      }
    }
  };
  trials::TrialPlan whole = plan_of(5, {.repeats = 2});
  std::vector<nlohmann::json> entries;
  work(whole, entries, std::numeric_limits<std::size_t>::max());
  CHECK(whole.is_complete());
  for (std::size_t kill = 0; kill <= entries.size(); ++kill) {
    std::vector<nlohmann::json> journal;
    trials::TrialPlan killed = plan_of(5, {.repeats = 2});
    work(killed, journal, kill);
    for (std::size_t again = kill + 1; again <= kill + 3; ++again) {  // it is killed twice more
      trials::TrialPlan resumed = plan_of(5, {.repeats = 2});
      replay(journal, resumed);
      work(resumed, journal, again == kill + 3 ? std::numeric_limits<std::size_t>::max() : again);
      if (again == kill + 3) {
        REQUIRE(resumed.is_complete());
        REQUIRE(table(resumed) == table(whole));
      }
    }
  }
}

TEST_CASE("results survive their way through a message, also those that are no numbers", "[plan]") {
  records::TrialResult result{
      .status = records::TrialStatus::diverged,
      .message = "\"loss\"\n",
      .value = std::numeric_limits<double>::infinity(),
      .larger_is_better = true,
      .metrics = {{data::Split::test, "accuracy", 0.1, true}, {data::Split::validation, "loss", std::nan(""), false}},
      .epochs = 3,
      .steps = 40,
      .seconds = 0.1 + 0.2};
  const records::TrialResult back = records::result_from(nlohmann::json::parse(to_json(result).dump()));
  CHECK(back.status == result.status);
  CHECK(back.message == result.message);
  CHECK(back.value == result.value);
  CHECK(back.metrics[0] == result.metrics[0]);
  CHECK(std::isnan(back.metrics[1].value));
  CHECK(back.seconds == result.seconds);
  CHECK(back.loss() == std::numeric_limits<double>::infinity());
}

TEST_CASE("a journal of other trainings is refused", "[plan]") {
  trials::TrialPlan plan = plan_of(2);
  const records::TrialRun stranger{.trial = 1, .epochs = 3};
  CHECK_THROWS_AS(replay({{{"ended", to_json(stranger)}, {"result", to_json(result_of(stranger))}}}, plan),
                  CheckpointError);
}

}  // namespace
}  // namespace unisono::jobs
