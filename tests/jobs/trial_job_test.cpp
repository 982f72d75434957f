#include "trials/trial_job.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "expect.hpp"
#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"

namespace unisono::jobs {
namespace {

using Catch::Matchers::Contains;
using testing::ScratchFolder;

/// Trials 0 … n − 1, in any order and any number at once.
class CountedPlan final : public trials::Plan {
 public:
  explicit CountedPlan(std::int64_t trials) : trials_(trials) {}

  std::optional<records::TrialRun> next() const override {
    for (std::int64_t trial = 0; trial < trials_; ++trial) {
      if (!state_.contains(trial)) return records::TrialRun{.trial = trial};
    }
    return std::nullopt;
  }
  void started(const records::TrialRun& run) override { state_[run.trial] = false; }
  void ended(const records::TrialRun& run, const records::TrialResult&) override { state_[run.trial] = true; }
  bool is_complete() const override {
    return std::ssize(state_) == trials_ && std::ranges::all_of(state_, [](const auto& one) { return one.second; });
  }
  void begin_no_more() override { trials_ = std::ssize(state_); }
  void restart_unended() override {
    std::erase_if(state_, [](const auto& one) { return !one.second; });
  }

 private:
  std::int64_t trials_;
  std::map<std::int64_t, bool> state_;  ///< of those that have started: whether they have ended
};

/// Of the runs that all ranks make: how often each was made by how many ranks.
struct Made {
  std::atomic<int> ranks = 0, runs = 0;
};

/// A job whose runs do nothing.
class EmptyJob final : public TrialJob {
 public:
  EmptyJob(const std::string& folder, records::Existing existing, std::int64_t trials, int together, Made& made)
      : folder_(folder), existing_(existing), plan_(trials), together_(together), made_(made) {}

  std::int64_t interrupted_at = -1;  ///< the trial that is stopped

  trials::Plan& plan() override { return plan_; }
  JobFolder folder() const override {
    return {.path = folder_,
            .journal = records::trial_journal_of(folder_),
            .existing = existing_,
            .runs = {"trials"},
            .results = {"trials.csv"}};
  }
  SlotShape shape() const override { return {.ranks = together_}; }
  records::TrialResult make(comm::Communicator& group, const records::TrialTask& task, Dispatcher*) override {
    EXPECT(task.folder == "of " + std::to_string(task.run.trial));
    if (task.run.trial == interrupted_at) return {.status = records::TrialStatus::interrupted};
    ++made_.ranks;
    if (group.is_root()) ++made_.runs;
    return {.value = static_cast<double>(task.run.trial)};
  }
  void begin(records::Journal& journal) override { journal.append({{"job", "search"}}); }
  void resume(const records::Journal& journal) override { replay(journal.entries(), plan_); }
  records::TrialTask task_for(const records::TrialRun& run) override {
    return {.run = run, .folder = "of " + std::to_string(run.trial)};
  }
  void note_start(records::Journal& journal, const records::TrialRun& run, double) override {
    journal.append({{"started", to_json(run)}});
  }
  void note_end(records::Journal& journal, const records::TrialRun& run, const records::TrialResult& result,
                double) override {
    journal.append({{"ended", to_json(run)}, {"result", to_json(result)}});
  }
  void ended(const records::TrialRun& run, const records::TrialResult& result) override {
    EXPECT(result.value == static_cast<double>(run.trial));
  }

 private:
  std::string folder_;
  records::Existing existing_;
  CountedPlan plan_;
  int together_;
  Made& made_;
};

struct Asked {
  int ranks = 1, together = 1;
  records::Existing existing = records::Existing::refuse;
  std::int64_t interrupted_at = -1;
};

/// Makes 7 runs on so many ranks, which are threads. \return whether they are complete
bool run_on(const std::string& folder, const Asked& asked, Made& made) {
  std::atomic<bool> is_complete = true;
  comm::run_as_threads(asked.ranks, [&](comm::Communicator& world) {
    Log log(world.rank(), false);
    session::Job job(world, log);
    EmptyJob trials(folder, asked.existing, 7, asked.together, made);
    trials.interrupted_at = asked.interrupted_at;
    if (!run_trials(job, trials)) is_complete = false;
  });
  return is_complete;
}

TEST_CASE("each run is made once, on as many ranks as make one together", "[trial_job]") {
  for (const auto& [ranks, together] : {std::pair(1, 1), std::pair(3, 1), std::pair(4, 2), std::pair(3, 3)}) {
    const ScratchFolder folder;
    Made made;
    CHECK(run_on(folder.path("job"), {.ranks = ranks, .together = together}, made));
    CHECK(made.runs == 7);
    CHECK(made.ranks == 7 * together);
    CHECK(records::read_journal(records::trial_journal_of(folder.path("job"))).size() == 1 + 2 * 7);
  }
}

TEST_CASE("a job that was stopped goes on with what is missing, on any number of ranks", "[trial_job]") {
  const ScratchFolder folder;
  Made made;
  CHECK_FALSE(run_on(folder.path(), {.interrupted_at = 4}, made));
  CHECK(made.runs == 4);
  CHECK_FALSE(run_on(folder.path(),
                     {.ranks = 2, .together = 2, .existing = records::Existing::resume, .interrupted_at = 6}, made));
  CHECK(made.runs == 6);
  CHECK(run_on(folder.path(), {.ranks = 3, .existing = records::Existing::resume}, made));
  CHECK(made.runs == 7);
}

TEST_CASE("a job's folder is refused, resumed or replaced, as it is told", "[trial_job]") {
  const ScratchFolder folder;
  Made made;
  std::filesystem::create_directory(folder.path("trials"));
  CHECK_THROWS_WITH(run_on(folder.path(), {}, made), Contains("there is 'trials', but no journal of trials"));
  CHECK_THROWS_AS(run_on(folder.path("none"), {.existing = records::Existing::resume}, made), CheckpointError);
  std::filesystem::remove(folder.path("trials"));
  CHECK(run_on(folder.path(), {}, made));
  CHECK_THROWS_WITH(run_on(folder.path(), {}, made), Contains("already holds trials"));
  folder.file("trials.csv", "");
  folder.file("notes.txt", "mine");
  CHECK(made.runs == 7);
  CHECK(run_on(folder.path(), {.existing = records::Existing::overwrite}, made));
  CHECK(made.runs == 14);
  CHECK_FALSE(std::filesystem::exists(folder.path("trials.csv")));
  CHECK(std::filesystem::exists(folder.path("notes.txt")));
}

}  // namespace
}  // namespace unisono::jobs
