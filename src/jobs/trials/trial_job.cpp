#include "trials/trial_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/session/placement.hpp"

namespace unisono::jobs {
namespace {

namespace fs = std::filesystem;

bool is_there(const JobFolder& folder, const std::string& name) {
  std::error_code ignored;
  return fs::exists(fs::path(folder.path) / name, ignored);
}

/// Refuses a folder that holds what does not fit.
void require_folder(const JobFolder& folder) {
  std::error_code ignored;
  const bool has_journal = fs::exists(folder.journal, ignored);
  require_owner(folder.path, folder.owner, folder.existing, has_journal);
  const auto left = std::ranges::find_if(folder.runs, [&](const auto& name) { return is_there(folder, name); });
  if (has_journal || left == folder.runs.end()) return;
  throw OutputError(fmt::format("{}: there is '{}', but no journal of trials; choose another folder (--output DIR)",
                                folder.path, *left));
}

void remove_made(const JobFolder& folder) {
  std::error_code error;
  for (const auto* names : {&folder.runs, &folder.results}) {
    for (const std::string& name : *names) {
      if (!error) fs::remove_all(fs::path(folder.path) / name, error);
    }
  }
  if (error) throw OutputError(fmt::format("{}: cannot be replaced: {}", folder.path, error.message()));
}

/// Rank 0's: asks the plan, and writes what happens to the journal.
class PlanDispatcher final : public Dispatcher {
 public:
  PlanDispatcher(session::Job& job, TrialJob& trials)
      : job_(job), trials_(trials), journal_(open_journal(trials)), end_(trials.end()), watch_(job.runtime()) {
    trials.resume(*journal_);
  }

  Answer take() override {
    const std::lock_guard lock(mutex_);
    look_for_end();
    trials::Plan& plan = trials_.plan();
    if (stopped_ || plan.is_complete()) return {.kind = Answer::Kind::stop};
    const auto training = plan.next();
    if (!training) return {.kind = Answer::Kind::wait};
    trials_.note_start(*journal_, *training, seconds());
    plan.started(*training);
    return {.kind = Answer::Kind::work, .task = trials_.task_for(*training)};
  }

  void give(const records::TrialRun& training, const records::TrialResult& result) override {
    const std::lock_guard lock(mutex_);
    if (result.status == records::TrialStatus::interrupted) {
      stopped_ = true;  // it starts once more when the job is resumed
      return;
    }
    trials_.note_end(*journal_, training, result, seconds());
    trials_.plan().ended(training, result);
    if (end_.loss && !training.refit && result.loss() <= *end_.loss) trials_.plan().begin_no_more();
    trials_.ended(training, result);
  }

  bool goes_on(const records::TrialRun& training, std::int64_t epochs, double loss) override {
    const std::lock_guard lock(mutex_);
    return !end_.median_rule || training.refit || median_.goes_on(training, epochs, loss);
  }

  bool wants_stop() override {
    const std::lock_guard lock(mutex_);
    look_for_end();
    return stopped_;
  }

  void request_stop() override {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }

 private:
  void look_for_end() {
    if (job_.received_signal() != 0) stopped_ = true;
    if (end_.seconds > 0 && watch_.seconds() > end_.seconds) trials_.plan().begin_no_more();
  }
  /// Since the job began, for the journal.
  double seconds() const { return std::round(1000 * watch_.seconds()) / 1000; }

  std::mutex mutex_;
  session::Job& job_;
  TrialJob& trials_;
  std::unique_ptr<records::Journal> journal_;
  EndOfTrials end_;
  Stopwatch watch_;
  trials::MedianRule median_;
  bool stopped_ = false;
};

constexpr std::chrono::milliseconds kWait(5);
constexpr int kTag = 81;

void sleep_until_rank_0_comes(comm::Communicator& group) {
  std::array<std::byte, 1> message{};
  if (group.is_root()) {
    for (int rank = 1; rank < group.size(); ++rank) group.send(message, rank, kTag);
    return;
  }
  constexpr double kPauseSeconds = 2e-3;
  wait_asleep(group, *group.start_receive(message, 0, kTag), kPauseSeconds);
}

/// What the threads of a rank have in common.
class RankOfSlots {
 public:
  RankOfSlots(session::Job& job, TrialJob& trials, Dispatcher* dispatcher)
      : job_(job), trials_(trials), dispatcher_(dispatcher) {}

  /// Makes one training after the other. \param group the ranks that make them together
  void work(comm::Communicator& group) noexcept {
    try {
      while (next(group)) {
      }
    } catch (...) {
      note_failure();
    }
  }

  void note_failure() noexcept {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = std::current_exception();
    try {
      if (dispatcher_ != nullptr) dispatcher_->request_stop();
    } catch (...) {  // the first failure is the cause
    }
  }
  void rethrow_failure() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  /// \return whether to go on
  bool next(comm::Communicator& group) {
    const Answer answer = ask(group);
    if (answer.kind == Answer::Kind::stop) return false;
    if (answer.kind == Answer::Kind::wait) {
      std::this_thread::sleep_for(kWait);
      return true;
    }
    Dispatcher* const asked = group.is_root() ? dispatcher_ : nullptr;
    const records::TrialResult result = trials_.make(group, answer.task, asked);
    if (group.is_root()) dispatcher_->give(answer.task.run, result);
    return true;
  }

  /// Rank 0 of the group asks, and tells the others, which sleep until it does: they may have no part in what it does.
  Answer ask(comm::Communicator& group) {
    Answer answer;
    sleep_until_rank_0_comes(group);
    const bool stops = group.max(job_.received_signal() != 0 ? 1 : 0) != 0;
    if (group.is_root()) {
      if (stops) dispatcher_->request_stop();
      answer = dispatcher_->take();
    }
    return group.size() == 1 ? answer : answer_from(group.broadcast_text(text_of(answer)));
  }

  session::Job& job_;
  TrialJob& trials_;
  Dispatcher* dispatcher_;  ///< null where another rank of the group asks
  std::mutex mutex_;
  std::exception_ptr failure_;
};

void work_on_threads(RankOfSlots& rank, comm::Communicator& group, int slots) {
  if (slots == 1) return rank.work(group);
  Threads threads("trainings side by side", slots - 1);
  std::vector<std::unique_ptr<comm::Communicator>> alone;
  for (int slot = 0; slot < slots; ++slot) alone.push_back(group.alone());
  for (int slot = 1; slot < slots; ++slot) {
    threads.start([&rank, &own = *alone[static_cast<std::size_t>(slot)]] { rank.work(own); });
  }
  rank.work(*alone[0]);
  threads.join();
}

std::vector<int> leaders_but_rank_0(int ranks, int together) {
  std::vector<int> leaders;
  for (int rank = together; rank < ranks; rank += together) leaders.push_back(rank);
  return leaders;
}

}  // namespace

void make_folder(const std::string& folder) {
  require_utf8_folder(folder);
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return;
  throw OutputError(
      fmt::format("{}: the folder cannot be created: {}; choose another one with --output", folder, error.message()));
}

std::unique_ptr<records::Journal> open_journal(TrialJob& trials) {
  const JobFolder folder = trials.folder();
  require_folder(folder);
  make_folder(folder.path);
  const bool anew = folder.existing == records::Existing::overwrite;
  auto journal = std::make_unique<records::Journal>(folder.journal, anew);  // from here on no other job writes there
  if (anew) remove_made(folder);
  trials.begin(*journal);
  return journal;
}

bool run_trials(session::Job& job, TrialJob& trials) {
  std::optional<PlanDispatcher> dispatcher;
  if (job.ranks().is_root()) dispatcher.emplace(job, trials);
  make_trial_runs(job, trials, dispatcher ? &*dispatcher : nullptr);
  return job.ranks().max(dispatcher && trials.plan().is_complete() ? 1 : 0) != 0;
}

std::int64_t cores_of_training(const settings::Config& config, std::int64_t threads) {
  return traits_of(config.strategy).shares_model ? std::max(threads, config.strategy.threads) : threads;
}

SlotShape slot_shape(const session::Job& job, std::int64_t ranks, std::int64_t threads, bool device,
                     std::string_view key) {
  const int all = job.ranks().size();
  if (ranks > all || all % ranks != 0) {
    throw ConfigError(
        fmt::format("{} = {}: {} cannot be divided into groups of {}; start a multiple of {} ranks (mpirun -n {} …)",
                    key, ranks, count_of(all, "rank"), ranks, ranks, ranks));
  }
  const bool alone = ranks == 1 && !device;
  return {.ranks = static_cast<int>(ranks),
          .here = alone ? std::max(1, job.place().fair_share() / static_cast<int>(threads)) : 1};
}

void warn_if_crowded(session::Job& job, std::int64_t threads, std::string_view key) {
  const int cores = job.place().fair_share();
  if (threads <= cores) return;
  job.log().warning(fmt::format("{} = {}, but a rank has {}: expect less speed; lower it, or use fewer ranks", key,
                                threads, count_of(cores, "core")));
}

std::string identity_text(std::uint64_t identity) { return fmt::format("{:016x}", identity); }

void require_same_data(const std::string& folder, const nlohmann::json& entry, const std::string& path,
                       const std::string& identity) {
  if (entry.value("data", identity) == identity) return;
  throw DataError(
      fmt::format("{}: was begun on different data from {}: go on with the same set, or begin anew in another folder "
                  "(--output DIR)",
                  folder, path));
}

void make_trial_runs(session::Job& job, TrialJob& trials, Dispatcher* dispatcher) {
  comm::Communicator& ranks = job.ranks();
  const SlotShape shape = trials.shape();
  comm::Communicator& group = job.split(ranks.rank() / shape.ranks, ranks.rank());
  std::optional<RemoteDispatcher> remote;
  if (dispatcher == nullptr && group.is_root()) remote.emplace(ranks);
  if (remote) dispatcher = &*remote;
  RankOfSlots rank(job, trials, dispatcher);
  Threads server("answering other ranks");
  if (ranks.is_root() && ranks.size() > shape.ranks) {
    server.start([&] {
      try {
        DispatchServer(ranks, leaders_but_rank_0(ranks.size(), shape.ranks), *dispatcher).serve();
      } catch (...) {
        rank.note_failure();
      }
    });
  }
  work_on_threads(rank, group, shape.here);
  rank.rethrow_failure();  // where a rank fails, the others are told by the end of its process
  if (remote) remote->leave();
  server.join();
  rank.rethrow_failure();
}

namespace {

namespace fs = std::filesystem;

/// States are states/<epochs>/<checkpoint>.
std::string states_of(const std::string& run_folder) { return run_folder + "/states"; }

void link_or_copy(const fs::path& from, const fs::path& to, std::error_code& error) {
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
}

/// A trial's last state of fewer epochs than these; nothing where it has none.
std::optional<fs::path> newest_state_before(const std::string& run_folder, std::int64_t epochs) {
  std::error_code ignored;
  std::int64_t newest = 0;
  for (const auto& entry : fs::directory_iterator(states_of(run_folder), ignored)) {
    const std::int64_t made = std::strtoll(entry.path().filename().c_str(), nullptr, 10);
    if (made < epochs) newest = std::max(newest, made);
  }
  for (const auto& entry : fs::directory_iterator(states_of(run_folder) + "/" + std::to_string(newest), ignored)) {
    return entry.path();
  }
  return std::nullopt;
}

}  // namespace

bool has_checkpoint(const std::string& run_folder) {
  std::error_code ignored;
  const fs::path checkpoints = records::checkpoints_of(run_folder);
  return fs::is_directory(checkpoints, ignored) && !fs::is_empty(checkpoints, ignored);
}

void remove_checkpoints(const std::string& run_folder) {
  std::error_code ignored;
  fs::remove_all(records::checkpoints_of(run_folder), ignored);
}

void keep_state(const std::string& run_folder, std::int64_t epochs) {
  std::error_code ignored;
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(records::checkpoints_of(run_folder), ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step-") && name.ends_with(".h5") && name > newest.filename()) newest = entry.path();
  }
  const fs::path folder = fs::path(states_of(run_folder)) / std::to_string(epochs);
  fs::create_directories(folder, ignored);
  if (!newest.empty()) link_or_copy(newest, folder / newest.filename(), ignored);
}

void remove_states(const std::string& run_folder) {
  std::error_code ignored;
  fs::remove_all(states_of(run_folder), ignored);
}

void take_over(const std::string& other_folder, std::int64_t epochs, const std::string& run_folder) {
  const auto state = newest_state_before(other_folder, epochs);
  const fs::path checkpoints = records::checkpoints_of(run_folder);
  std::error_code error;
  fs::remove_all(checkpoints, error);
  if (!error) fs::create_directories(checkpoints, error);
  if (!error && state) link_or_copy(*state, checkpoints / state->filename(), error);
  if (!error && state) return;
  throw CheckpointError(fmt::format("{}: cannot take over the state of {}: {}", run_folder, other_folder,
                                    error ? error.message() : "it has none"));
}

}  // namespace unisono::jobs
