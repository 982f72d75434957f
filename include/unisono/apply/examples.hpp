#pragma once

#include <cstddef>

#include "unisono/apply/evaluate.hpp"
#include "unisono/base/log.hpp"
#include "unisono/records/model_examples.hpp"

namespace unisono::apply {

/// Applies a trained model to a split, by one process on its own: the confusion matrix, the examples that the model is
/// most wrong about, neighbours of its vectors, and metrics of examples that it was not trained on.
/// \param most how many examples `worst` has at most \throws CheckpointError, DataError
records::ModelExamples examples_of_model(const ApplyOptions& options, std::size_t most, Log& log);

}  // namespace unisono::apply
