#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parameter_average.hpp"
#include "step.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/kernels/in_place.hpp"

namespace unisono::strategies {

inline constexpr std::int64_t kWatchedSteps = 64;  // one in-place step out of so many is sampled by ConflictMeter

/// Rows of θ that threads touched, in the steps that ConflictMeter sampled.
struct ConflictCounters {
  std::int64_t touched = 0, conflicts = 0;  ///< conflicts: that were also in use by another thread

  void describe(CounterVisitor& visitor) {
    visitor.count({.name = "touched_rows", .hidden = true}, touched);
    visitor.count({.name = "row_conflicts", .hidden = true}, conflicts);
    visitor.figure({.name = "row_conflict_rate"}, rate());
  }
  std::string text(const CounterTerms&) const {
    if (touched == 0) return "";
    return fmt::format(
        "  conflicts   {:.3g} % of the rows that examples touched were also in use by another thread (in sampled "
        "steps)\n",
        100 * rate());
  }
  /// NaN where no step was sampled.
  double rate() const {
    return touched == 0 ? std::numeric_limits<double>::quiet_NaN()
                        : static_cast<double>(conflicts) / static_cast<double>(touched);
  }
};

/// Hogwild's steps of a model that is updated in place: the threads divide the examples of each step.
class InPlaceSteps {
 public:
  InPlaceSteps(TrainContext& run, models::RowLocks* locks, ParameterAverage& parameters)
      : run_(run),
        locks_(locks),
        parameters_(parameters),
        team_(run.threads, "hogwild"),
        threads_(static_cast<std::size_t>(run.threads)) {
    run.counters.of<ConflictCounters>() = {};
    if (run.threads > 1) meter_.emplace(run.model.in_place()->row_spaces(), run.threads);
    for (Thread& thread : threads_) thread.scratch = run.model.in_place()->make_scratch();
  }

  StepRecord make(std::int64_t step) {
    const double rate = run_.schedule.rate(step);
    const data::Batch batch = parallel::next_batch(run_);
    train_on(batch, rate, meter_ && step % kWatchedSteps == 0 ? &*meter_ : nullptr);
    return make_record(batch, step + 1, rate, /*consistent=*/true);
  }
  Index own_examples() const { return own_examples_; }

 private:
  struct alignas(kAlignmentBytes) Thread {
    std::unique_ptr<models::Scratch> scratch;
    kernels::LossSums sums;
  };

  void train_on(const data::Batch& batch, double rate, models::ConflictMeter* meter) {
    std::int64_t before = own_examples_before(run_, batch, run_.communicator.size());
    const int parts = parameters_.begin_step(batch.global_size);
    for (int part = 0; part < parts; ++part) {
      before += train_on(batch, pieces_of(batch, part, parts), before, rate, meter);
      if (part + 1 < parts) parameters_.merge_after_part(part);
    }
    for (Thread& thread : threads_) run_.sums += std::exchange(thread.sums, {});
    own_examples_ = batch.rank_step_size;
    if (meter == nullptr) return;
    run_.counters.of<ConflictCounters>() = {.touched = meter->touched(), .conflicts = meter->conflicts()};
  }

  /// \param examples_before examples that θ was trained on before these pieces \return how many examples these have
  std::int64_t train_on(const data::Batch& batch, const std::vector<data::ExampleRange>& pieces,
                        std::int64_t examples_before, double rate, models::ConflictMeter* meter) {
    const parallel::ComputeScope computes(run_);
    std::vector<std::int64_t> before = {examples_before};
    for (const data::ExampleRange& piece : pieces) before.push_back(before.back() + piece.size());
    std::atomic<std::size_t> next{0};
    team_.run([&](int number) {
      Thread& thread = threads_[static_cast<std::size_t>(number)];
      for (std::size_t i = next++; i < pieces.size(); i = next++) {
        const models::InPlaceStep step{.rate = rate,
                                       .examples_before = before[i],
                                       .parameters = run_.state.parameters,
                                       .locks = locks_,
                                       .touched = parameters_.touched(),
                                       .meter = meter,
                                       .thread = number,
                                       .alone = run_.threads == 1};
        run_.model.in_place()->update_in_place(batch, pieces[i], step, *thread.scratch, thread.sums);
      }
    });
    return before.back() - examples_before;
  }

  TrainContext& run_;
  models::RowLocks* locks_;
  ParameterAverage& parameters_;
  std::optional<models::ConflictMeter> meter_;  ///< only with several threads
  ThreadTeam team_;
  std::vector<Thread> threads_;
  Index own_examples_ = 0;
};

}  // namespace unisono::strategies
