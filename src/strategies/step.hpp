#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/event_order.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/parallel/step.hpp"
#include "unisono/strategies/strategy.hpp"

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

}  // namespace unisono::strategies
