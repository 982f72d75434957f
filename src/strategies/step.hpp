#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "server/event_order.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/parallel/step.hpp"
#include "unisono/strategies/strategy.hpp"
#include "unisono/tensor/allocator.hpp"

// Parts of a training step that several strategies share.
namespace unisono::strategies {

/// \param step steps made, including that of this batch
StepRecord make_record(const data::Batch& batch, std::int64_t step, double learning_rate, bool consistent);

class ParameterAverage;

/// The pieces of a batch into which threads divide an in-place update: ranges of its set, or of a table's rows.
/// \param part only the pieces of this part, of `parts` about equal parts of the batch
std::vector<data::ExampleRange> pieces_of(const data::Batch& batch, int part = 0, int parts = 1);

/// Makes one step in place on this rank's examples, on the calling thread, one piece after the other. \return the
/// step's batch
/// \param parameters with several ranks: it marks the touched rows and merges them between parts of the step; may be
/// null
data::Batch step_in_place(TrainContext& run, models::Scratch& scratch, double learning_rate,
                          ParameterAverage* parameters = nullptr);

/// How many examples each of `replicas` copies of θ was trained on before this batch: an equal share of all.
std::int64_t own_examples_before(const TrainContext& run, const data::Batch& batch, int replicas);

// Shared by strategies in which each rank trains parameters of its own at its own pace, and no servers count its
// steps.

/// Strategy::need_of_examples where steps are dealt to whoever asks first.
inline constexpr const char* kStepsOfNothing = "take steps from the others and train on nothing";

/// From step `made` to the next report, evaluation or checkpoint, or as it was recorded.
Segment next_segment(const TrainContext& run, std::int64_t made);

/// This rank continues after so many steps of its own.
void continue_after(TrainContext& run, std::int64_t steps);

/// In which order this rank acted in a segment of the replayed run; not given, where the run is no replay.
EventOrder replayed_order(const TrainContext& run, const Segment& segment);

/// Gives the recorder the order in which each rank acted. Collective. \param events of this rank
void record(TrainContext& run, comm::Communicator& ranks, const Segment& segment,
            const std::vector<ServerEvent>& events);

/// The run's record at the end of a segment. Collective. \param steps, examples of this rank \param before examples of
/// all ranks, up to the last record
StepRecord record_of(const TrainContext& run, comm::Communicator& ranks, const Segment& segment, std::int64_t steps,
                     Index examples, Index& before);
/// The steps that a worker has made.
struct StepsOfWorker {
  std::int64_t worker = 0, steps = 0;
};
/// Likewise. \param own of this rank's workers
StepRecord record_of(const TrainContext& run, comm::Communicator& ranks, const Segment& segment,
                     const std::vector<StepsOfWorker>& own, Index examples, Index& before);

// What several strategies count. What one alone counts is declared in its own file.

/// Bytes of vectors that were averaged over all ranks, where there are several.
struct AveragedCounters {
  std::int64_t bytes = 0;

  void describe(CounterVisitor& visitor) { visitor.count({.name = "averaged_bytes", .unit = "bytes"}, bytes); }
  std::string text(const CounterTerms& terms) const { return terms.bytes_line("averages", bytes); }
};

/// Bytes of parameters that were sent on to another rank.
struct PassedCounters {
  std::int64_t bytes = 0;

  void describe(CounterVisitor& visitor) { visitor.count({.name = "passed_bytes", .unit = "bytes"}, bytes); }
  std::string text(const CounterTerms& terms) const { return terms.bytes_line("passed on", bytes); }
};

/// Threads that wait for each other at the ends of rounds of a few microseconds. They spin for a moment, and then sleep
/// and look from time to time: were they woken instead, they would often be put on the core of the thread that woke
/// them, and stay there for milliseconds. What a thread wrote before it finished a round is seen by those that waited
/// for it.
class ThreadRounds {
 public:
  explicit ThreadRounds(int threads) : made_(static_cast<std::size_t>(threads)) {}

  int threads() const { return static_cast<int>(made_.size()); }
  /// \param rounds that the thread has made, over all its life
  void finish(int thread, std::int64_t rounds) {
    made_[static_cast<std::size_t>(thread)].count.store(rounds, std::memory_order_release);
  }
  /// Waits until a thread has made so many. \return false where a thread failed, which then finishes no more
  bool wait(int thread, std::int64_t rounds) const {
    const std::atomic<std::int64_t>& made = made_[static_cast<std::size_t>(thread)].count;
    for (Idle idle(Idle::kSpinsOfMeetings); made.load(std::memory_order_acquire) < rounds; idle.pause()) {
      if (failed_.load(std::memory_order_relaxed)) return false;
    }
    return true;
  }
  /// Waits until all threads have made so many rounds. \return false where a thread failed
  bool wait_for_all(std::int64_t rounds) const {
    for (int thread = 0; thread < threads(); ++thread) {
      if (!wait(thread, rounds)) return false;
    }
    return true;
  }
  void fail() { failed_.store(true, std::memory_order_relaxed); }

 private:
  struct alignas(2 * kAlignmentBytes) Count {
    std::atomic<std::int64_t> count{0};
  };
  std::vector<Count> made_;
  std::atomic<bool> failed_{false};
};

/// Threads that make steps of some microseconds together, and stay awake from one to the next.
class StepTeam {
 public:
  /// \param work a thread's part of a step; false where another thread failed
  /// \param fail called where a thread ends: what others wait for in `work` will not come
  StepTeam(int threads, std::string purpose, std::function<bool(int thread)> work, std::function<void()> fail)
      : team_(threads, std::move(purpose)),
        begun_(1),
        ended_(threads),
        work_(std::move(work)),
        fail_(std::move(fail)) {}

  /// Calls lead(), in which the calling thread, number 0, calls step() as often as it likes. \throws what a thread
  /// threw
  void run(const std::function<void()>& lead) {
    team_.run([&](int number) {
      const auto end = [&] {
        begun_.fail();
        ended_.fail();
        fail_();
      };
      try {
        number == 0 ? lead() : follow(number);
      } catch (...) {
        end();
        throw;
      }
      if (number == 0) end();
    });
  }

  /// Calls work(t) on all threads. \return false where a thread failed: lead() must return
  bool step() {
    begun_.finish(0, ++made_);
    if (!work_(0)) return false;
    ended_.finish(0, made_);
    return ended_.wait_for_all(made_);
  }

 private:
  void follow(int number) {
    for (std::int64_t round = 1; begun_.wait(0, round); ++round) {
      if (!work_(number)) return;
      ended_.finish(number, round);
    }
  }

  ThreadTeam team_;
  ThreadRounds begun_, ended_;  ///< steps: by thread 0, and by each thread
  std::function<bool(int)> work_;
  std::function<void()> fail_;
  std::int64_t made_ = 0;  ///< steps
};

}  // namespace unisono::strategies
