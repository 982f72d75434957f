#pragma once

#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/models/staged.hpp"
#include "unisono/parallel/pipeline_costs.hpp"

namespace unisono::parallel {

/// The seconds that each segment between two neighbouring cut points takes here for one micro-batch: the median of a
/// few. Needs the memory of one segment at a time.
std::vector<PassSeconds> time_segments(const models::Staged& model, kernels::Backend& backend, Index batch,
                                       const Clock& clock = steady_clock());

}  // namespace unisono::parallel
