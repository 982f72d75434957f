#include "mpi/job.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string_view>

namespace unisono::comm {
namespace {

constexpr double kControlSeconds = 1e-3;  ///< how often control messages are read while waiting
constexpr double kAnswerSeconds = 3;      ///< how long a rank that is alive and waiting may take to say so
constexpr double kLetGoSeconds = 1;       ///< how long peers may take to finish reading memory of abandoned operations
constexpr double kMeetSeconds = 5;        ///< how long the others may take to learn of a failure
constexpr int kSpins = 2000;              ///< polls, after which other ranks may need this core to arrive

}  // namespace

/// The supervision of one wait: reads control messages, and finds out which rank is missing when the time is over.
class MpiJob::WaitMonitor {
 public:
  WaitMonitor(MpiJob& job, const mpi::Place& place) : job_(job), place_(place) {}

  /// Call now and then, with the lock held.
  void look_around() {
    const double now = watch_.seconds();
    if (now < next_look_) return;
    next_look_ = now + kControlSeconds;
    job_.control_.poll();
    throw_if_a_peer_failed();
    if (!answers_ && now > place_.group.timeout_seconds + extended_) {
      answers_ = job_.control_.ask(place_.group.id);
      answers_end_ = now + kAnswerSeconds;
    }
    if (answers_ && (now > answers_end_ || std::ssize(*answers_) == job_.roster_.size() - 1)) judge();
  }

 private:
  void throw_if_a_peer_failed() const {
    const int failed = job_.control_.failed_rank();
    if (failed >= 0) throw PeerFailure(job_.roster_.name(failed) + ") failed");
  }

  /// Decides which ranks to blame. A rank that is missing and does not answer holds the others up. One that is missing
  /// but answers waits itself: for a rank of the group that does not answer, or else for one outside of the group.
  void judge() {
    const auto is_late = [this](int rank) { return !has_arrived(rank); };
    const std::vector<int> group = place_.group.members, late = those(group, is_late);
    const std::vector<int> late_and_silent = silent_of(late);
    if (!late_and_silent.empty()) throw_silent(late_and_silent, "arrive");
    for (const std::vector<int>& ranks : {group, job_.everyone_.members}) {
      const std::vector<int> silent = silent_of(ranks);
      if (!silent.empty()) throw_silent(silent, "answer a rank that waits");
    }
    if (!late.empty()) throw_missing(late, "arrive");
    const double seconds = place_.group.timeout_seconds;
    if (extended_ > 0) {
      throw CommunicationError(
          fmt::format("{}: all ranks arrived, but it did not finish within {} s; is the network stuck or slow? If not, "
                      "raise communication.timeout_seconds",
                      place_.name, 2 * seconds));
    }
    answers_.reset();  // all have arrived: the transfer gets the same time once more
    extended_ = seconds;
  }

  template <typename Holds>
  static std::vector<int> those(const std::vector<int>& ranks, Holds holds) {
    std::vector<int> found;
    std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(found), holds);
    return found;
  }

  std::vector<int> silent_of(const std::vector<int>& ranks) const {
    return those(ranks, [this](int rank) { return !answers(rank); });
  }

  /// \param ranks that the message names
  [[noreturn]] void throw_silent(const std::vector<int>& ranks, std::string_view what) const {
    const std::vector<int> all = silent_of(job_.everyone_.members);
    job_.silent_.insert(all.begin(), all.end());
    throw_missing(ranks, what);
  }

  [[noreturn]] void throw_missing(const std::vector<int>& ranks, std::string_view what) const {
    std::string names;
    for (const int rank : ranks) names += (names.empty() ? "" : ", ") + name_with_step(rank);
    throw CommunicationError(
        fmt::format("{} did not {} at {} within {} s; see what holds it up there, or raise "
                    "communication.timeout_seconds",
                    names, what, place_.name, place_.group.timeout_seconds));
  }

  bool answers(int rank) const { return rank == job_.roster_.rank() || answers_->contains(rank); }

  bool has_arrived(int rank) const {
    if (rank == job_.roster_.rank()) return true;
    if (place_.sequence == 0) return rank != place_.peer;  // a message: nobody else is waited for
    const auto found = answers_->find(rank);
    return found != answers_->end() && found->second.begun >= place_.sequence;
  }

  std::string name_with_step(int rank) const {
    std::int64_t step = job_.steps_.of(rank);
    for (const auto& [other, answer] : *answers_) {
      const auto found = answer.steps.find(rank);
      if (step < 0 && found != answer.steps.end()) step = found->second;
    }
    if (step >= 0) return job_.roster_.name(rank) + fmt::format(", last step {})", step);
    const std::int64_t mine = job_.steps_.of(job_.roster_.rank());
    if (mine < 0) return job_.roster_.name(rank) + ", before the first step)";
    return job_.roster_.name(rank) + fmt::format(", last step unknown; this rank is at step {})", mine);
  }

  MpiJob& job_;
  const mpi::Place& place_;
  Stopwatch watch_;
  double next_look_ = 0, extended_ = 0, answers_end_ = 0;
  std::shared_ptr<const mpi::Answers> answers_;  ///< since the time is over
};

MpiJob::MpiJob() : steps_(roster_), control_(roster_, steps_) {
  mpi::check(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
  for (int rank = 0; rank < roster_.size(); ++rank) everyone_.members.push_back(rank);
  control_.enter(everyone_);
}

MpiJob::~MpiJob() {
  progress_.stop_thread();
  if (failed()) return;
  steps_.free();
  MPI_Comm_free(&communicator_);
}

std::uint64_t MpiJob::gather_all(double timeout_seconds) {
  everyone_.timeout_seconds = timeout_seconds;
  mpi::Barrier barrier(communicator_);
  const mpi::Place place{everyone_, "the start", ++everyone_.begun, -1};
  run(barrier, place);
  return everyone_.begun;
}

void MpiJob::wait(const std::function<bool()>& done, const mpi::Place& place, Waiting waiting) {
  try {
    wait_watched(done, place, waiting);
  } catch (...) {
    gave_up_ = true;
    throw;
  }
}

void MpiJob::run(mpi::Operation& operation, const mpi::Place& place) {
  try {
    const mpi::Progress::Entry entry(progress_, operation);
    wait([&entry] { return entry.done(); }, place);
  } catch (...) {
    let_go(operation);
    throw;
  }
}

void MpiJob::wait_watched(const std::function<bool()>& done, const mpi::Place& place, Waiting waiting) {
  constexpr std::uint64_t kTurns = 64;  // between two looks at the clock, as long as a turn takes next to nothing
  Idle idle(roster_.oversubscribed() || waiting == Waiting::sleeps ? 0 : kSpins);
  WaitMonitor monitor(*this, place);
  for (std::uint64_t turn = 1;; ++turn) {
    {
      const std::lock_guard lock(progress_.mutex());
      progress_.poll();
      if (done()) return;
      if (!idle.spins() || turn % kTurns == 0) monitor.look_around();
    }
    idle.pause();
  }
}

void MpiJob::let_go(mpi::Operation& operation) noexcept {
  const std::lock_guard one_at_a_time(letting_go_);
  progress_.stop_thread();
  gave_up_ = true;
  if (!since_letting_go_) since_letting_go_.emplace();
  Idle idle(0);
  try {
    while (since_letting_go_->seconds() < kLetGoSeconds) {
      {
        const std::lock_guard lock(progress_.mutex());
        if (operation.let_go()) return;
        control_.poll();  // others may ask who is missing: it is not this rank
      }
      idle.pause();
    }
  } catch (const std::exception&) {
    // MPI itself has failed: nothing moves any more.
  }
}

bool MpiJob::failed() {
  const std::lock_guard lock(progress_.mutex());
  return gave_up_ || control_.failed_rank() >= 0;
}

bool MpiJob::meet() {
  Stopwatch since_failure;
  const Stopwatch since_begin;
  for (bool failure_known = false;;) {
    {
      const std::lock_guard lock(progress_.mutex());
      control_.poll();
      int left = 0, silent = 0;
      for (int rank = 0; rank < roster_.size(); ++rank) {
        if (control_.ends()[static_cast<std::size_t>(rank)]) continue;
        ++left;
        if (silent_.contains(rank)) ++silent;
      }
      if (left == 0) return true;
      if (left == silent) return false;
      if (!failure_known && control_.failed_rank() >= 0) {
        failure_known = true;
        since_failure.restart();
      }
    }
    if (end_limit_ && since_begin.seconds() > *end_limit_) return false;
    if (failure_known && since_failure.seconds() > kMeetSeconds) return false;
    usleep(200);
  }
}

void ArrivalLog::begin(double zero) {
  const std::lock_guard lock(mutex_);
  arrivals_.clear();
  zero_ = zero;
  is_on_ = true;
}

void ArrivalLog::add(int from, int to, int tag) {
  const std::lock_guard lock(mutex_);
  arrivals_.push_back({.from = from, .to = to, .tag = tag, .seconds = steady_clock().seconds() - zero_});
}

std::vector<Arrival> ArrivalLog::take() {
  const std::lock_guard lock(mutex_);
  is_on_ = false;
  return std::exchange(arrivals_, {});
}

}  // namespace unisono::comm

namespace unisono::comm::mpi {

Started::Started(MpiJob& job, std::unique_ptr<Operation> operation, const Place& place, std::atomic<int>* in_flight)
    : job_(job),
      operation_(std::move(operation)),
      place_(place),
      in_flight_(in_flight),
      counted_(in_flight != nullptr ? ++*in_flight : 0),
      entry_(job.progress(), *this) {
  test();  // it begins now
}

Started::~Started() {
  bool done = false;
  {
    const std::lock_guard lock(job_.progress().mutex());
    done = done_;
  }
  if (!done) job_.let_go(*this);
}

void Started::wait() {
  job_.wait([this] { return entry_.done(); }, place_);
  if (when_done_) when_done_();
}

bool Started::test() {
  const std::lock_guard lock(job_.progress().mutex());
  job_.progress().poll();
  return entry_.done();
}

bool Started::wait_unless(const std::function<bool()>& enough) {
  bool done = false;
  job_.wait([&] { return (done = entry_.done()) || enough(); }, place_);
  return done;
}

std::vector<std::size_t> Started::wait_any(std::span<Started* const> any, const std::function<bool()>& enough) {
  std::vector<std::size_t> done;
  const auto find_done = [&] {
    for (std::size_t i = 0; i < any.size(); ++i) {
      if (any[i]->entry_.done()) done.push_back(i);
    }
    return !done.empty();
  };
  Place place = any.front()->place_;
  for (const Started* one : any) {
    if (one->place_.peer != place.peer) place.peer = Place::kNobody;
  }
  // Other threads of this process work, or wait, at the same time.
  any.front()->job_.wait([&] { return find_done() || enough(); }, place, Waiting::sleeps);
  return done;
}

void Started::wait_for_arrivals() {
  job_.wait([this] { return entry_.done() || operation_->all_arrived(); }, place_);
}

bool Started::advance() {
  if (!operation_->advance()) return false;
  if (in_flight_ != nullptr) --*in_flight_;
  done_ = true;
  return true;
}

namespace {

/// The number that a variable holds, or `otherwise`.
int number(const Environment& environment, const char* name, int otherwise) {
  const std::string text = environment(name);
  int value = otherwise;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : otherwise;
}

/// The number of tasks of this process's Slurm step; 1 where it is in none. Only srun sets the step's variables; a
/// batch script has SLURM_NTASKS and SLURM_PROCID=0, too, and may well start one process by hand.
int slurm_tasks(const Environment& environment) {
  const bool is_task = !environment("SLURM_STEP_ID").empty() || !environment("SLURM_STEPID").empty() ||
                       number(environment, "SLURM_PROCID", 0) > 0;
  if (!is_task) return 1;
  return number(environment, "SLURM_STEP_NUM_TASKS", number(environment, "SLURM_NTASKS", 1));
}

namespace fs = std::filesystem;

bool is_in_memory(const std::string& folder) {
  struct statfs status = {};
  return statfs(folder.c_str(), &status) == 0 && status.f_type == TMPFS_MAGIC;
}

bool is_segment(std::string_view name) { return name.starts_with("vader_segment.") || name.starts_with("osc_sm."); }

/// Calls visit(path) for every segment in the folder.
template <typename Visit>
void for_each_segment(const std::string& folder, Visit visit) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (is_segment(entry.path().filename().string())) visit(entry.path());
  }
}

/// The kernel grants a lease for writing on a file that nobody else has open or mapped, in whatever container.
bool nobody_uses(int file) {
  fcntl(file, F_SETSIG, SIGURG);  // whoever opens it meanwhile waits for the lease's end; SIGURG is ignored
  return fcntl(file, F_SETLEASE, F_WRLCK) == 0;
}

void remove_if_dead(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat status = {};
  const bool mine = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
  if (mine && nobody_uses(file)) unlink(path.c_str());
  close(file);  // and with it the lease
}

}  // namespace

Environment process_environment() {
  return [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
}

std::string launch_problem(const Environment& environment, int size) {
  const auto sees = fmt::format("this process sees {} rank{}", size, size == 1 ? "" : "s");
  // Open MPI's own launcher knows best: inside an allocation it starts ranks by an srun of its own.
  if (const int ranks = number(environment, "OMPI_COMM_WORLD_SIZE", 0); ranks > 0) {
    if (ranks == size) return {};
    return fmt::format(
        "OMPI_COMM_WORLD_SIZE is {} but {}: it was started by the mpirun of another Open MPI. Start it "
        "with the mpirun of the MPI that unisono was built with",
        ranks, sees);
  }
  if (const int tasks = slurm_tasks(environment); tasks > size) {
    return fmt::format(
        "SLURM_NTASKS is {} but {}: it was started by an srun that does not speak Open MPI's PMIx. Start "
        "it with 'srun --mpi=pmix', or with mpirun inside the allocation",
        tasks, sees);
  }
  if (const int ranks = number(environment, "PMI_SIZE", 1); ranks > size) {
    return fmt::format(
        "PMI_SIZE is {} but {}: it was started by the mpirun of another MPI. Start it with the mpirun of "
        "the MPI that unisono was built with",
        ranks, sees);
  }
  return {};
}

bool is_first_of_launch(const Environment& environment) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (!environment(name).empty()) return number(environment, name, 0) == 0;
  }
  return true;
}

bool is_first_of_node(const Environment& environment) {
  return number(environment, "OMPI_COMM_WORLD_LOCAL_RANK", number(environment, "SLURM_LOCALID", 0)) == 0;
}

Peers launched_peers(const Environment& environment) {
  if (const int ranks = number(environment, "OMPI_COMM_WORLD_SIZE", 0); ranks > 0) {
    return number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 0) == ranks ? Peers::on_this_node : Peers::unknown;
  }
  const bool launched =
      !environment("PMIX_NAMESPACE").empty() || !environment("PMI_SIZE").empty() || slurm_tasks(environment) > 1;
  return launched ? Peers::unknown : Peers::none;
}

bool launched_more_ranks_than_cores(const Environment& environment, int allowed_cores, int all_cores) {
  // A rank that the launcher has bound sees only its own cores; other ranks have other cores.
  const bool bound = number(environment, "OMPI_MCA_orte_bound_at_launch", 0) != 0;
  return number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE", 1) > (bound ? all_cores : allowed_cores);
}

void remove_dead_segments(const std::string& folder) {
  if (is_in_memory(folder)) for_each_segment(folder, remove_if_dead);
}

void remove_segments_of(const std::string& job, const std::string& folder) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(job.data(), job.data() + job.size(), number);
  if (job.empty() || error != std::errc() || end != job.data() + job.size()) return;
  const std::string part = fmt::format(".{:x}.", number);
  for_each_segment(folder, [&part](const fs::path& path) {
    struct stat status = {};
    const bool mine = lstat(path.c_str(), &status) == 0 && status.st_uid == geteuid();
    if (mine && path.filename().string().find(part) != std::string::npos) unlink(path.c_str());
  });
}

}  // namespace unisono::comm::mpi
