#pragma once

#include "unisono/apply/trained_model.hpp"
#include "unisono/apply/vectors.hpp"

namespace unisono::apply {

/// Writes every block of θ and of the running statistics under its name, in its canonical shape, and the features' mean
/// and scale if the run normalised them. \return how many arrays were written \throws OutputError
std::size_t export_parameters(TrainedModel& model, const ExportOptions& options);

}  // namespace unisono::apply
