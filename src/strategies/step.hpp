#pragma once

#include <vector>

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

}  // namespace unisono::strategies
