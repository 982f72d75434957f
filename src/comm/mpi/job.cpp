#include "job.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include "check.hpp"
#include "message_operations.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono {
namespace {

constexpr double kControlSeconds = 1e-3;  ///< how often control messages are read while waiting
constexpr double kAnswerSeconds = 1;      ///< how long a rank that is alive and waiting may take to say so
constexpr double kLetGoSeconds = 1;       ///< how long peers may take to finish reading what is given up
constexpr double kMeetSeconds = 5;        ///< how long the others may take to learn of a failure

/// Between two looks: stays on the core at first, since a neighbour is mostly there within microseconds, unless it
/// needs this very core to arrive.
class Idle {
 public:
  explicit Idle(Waiting waiting) : spins_(waiting == Waiting::spins ? 2000 : 0) {}
  void pause() {
    if (spins_ > 0) {
      --spins_;
    } else {
      sched_yield();
    }
  }

 private:
  int spins_;
};

}  // namespace

/// One wait that takes longer: reads control messages, and looks for whoever is missing when the time is over.
class MpiJob::Vigil {
 public:
  Vigil(MpiJob& job, const mpi::Place& place) : job_(job), place_(place) {}

  /// Call now and then, with the lock held.
  void look_around() {
    const double now = watch_.seconds();
    if (now < next_look_) return;
    next_look_ = now + kControlSeconds;
    job_.control_.poll();
    throw_if_a_peer_failed();
    if (!asked_ && now > place_.group.timeout_seconds + extended_) {
      job_.control_.ask(place_.group.id, place_.group.members);
      asked_ = true;
      answers_end_ = now + kAnswerSeconds;
    }
    if (asked_ && now > answers_end_) judge();
  }

 private:
  void throw_if_a_peer_failed() const {
    const int failed = job_.control_.failed_rank();
    if (failed >= 0) throw PeerFailure(job_.roster_.name(failed) + ") failed");
  }

  void judge() {
    std::string missing;
    for (const int rank : place_.group.members) {
      if (!has_arrived(rank)) missing += (missing.empty() ? "" : ", ") + name_with_step(rank);
    }
    const double seconds = place_.group.timeout_seconds;
    if (!missing.empty()) {
      throw CommunicationError(
          fmt::format("{} did not arrive at {} within {} s; see what holds it up there, or raise "
                      "communication.timeout_seconds",
                      missing, place_.name, seconds));
    }
    if (extended_ > 0) {
      throw CommunicationError(
          fmt::format("{}: all ranks arrived, but it did not finish within {} s; is the network "
                      "stuck or slow? Else raise communication.timeout_seconds",
                      place_.name, 2 * seconds));
    }
    asked_ = false;  // they are all there: the transfer gets as long again
    extended_ = seconds;
  }

  bool has_arrived(int rank) const {
    if (rank == job_.roster_.rank()) return true;
    if (place_.sequence == 0) return rank != place_.peer;  // a message: nobody else is waited for
    const auto found = job_.control_.answers().find(rank);
    return found != job_.control_.answers().end() && found->second.begun >= place_.sequence;
  }

  std::string name_with_step(int rank) const {
    std::int64_t step = job_.steps_.of(rank);
    for (const auto& [other, answer] : job_.control_.answers()) {
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
  bool asked_ = false;
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
    wait_in_vigil(done, place, waiting);
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

void MpiJob::wait_in_vigil(const std::function<bool()>& done, const mpi::Place& place, Waiting waiting) {
  constexpr std::uint64_t kTurns = 64;  // between two looks at the clock
  Idle idle(roster_.oversubscribed() ? Waiting::yields : waiting);
  Vigil vigil(*this, place);
  for (std::uint64_t turn = 1;; ++turn) {
    {
      const std::lock_guard lock(progress_.mutex());
      progress_.poll();
      if (done()) return;
      if (turn % kTurns == 0) vigil.look_around();
    }
    idle.pause();
  }
}

void MpiJob::let_go(mpi::Operation& operation) noexcept {
  const std::lock_guard one_at_a_time(letting_go_);
  progress_.stop_thread();
  gave_up_ = true;
  if (!since_letting_go_) since_letting_go_.emplace();
  try {
    while (since_letting_go_->seconds() < kLetGoSeconds) {
      {
        const std::lock_guard lock(progress_.mutex());
        if (operation.let_go()) return;
      }
      sched_yield();
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
  for (bool failure_known = false;;) {
    {
      const std::lock_guard lock(progress_.mutex());
      control_.poll();
      bool all_ended = true;
      for (const auto& end : control_.ends()) all_ended &= end.has_value();
      if (all_ended) return true;
      if (!failure_known && control_.failed_rank() >= 0) {
        failure_known = true;
        since_failure.restart();
      }
    }
    if (failure_known && since_failure.seconds() > kMeetSeconds) return false;
    usleep(200);
  }
}

}  // namespace unisono
