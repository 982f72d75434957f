#pragma once

#include <optional>

#include "pipeline/simulate.hpp"
#include "unisono/parallel/pipeline_schedule.hpp"

namespace unisono::parallel {

/// The length of a step by the formula of its schedule, where messages are free; nothing where there is no formula
/// (interleaved and zero_bubble with fewer micro-batches than stages): the simulator knows.
///   naive            m·S(F+B+W)
///   gpipe, 1f1b      (m+S−1)(F+B+W)
///   interleaved      (m+(S−1)/v)(F+B+W)                      m ≥ S
///   zero_bubble      m(F+B+W) + (S−1)·max(F, B, F+B−W)       m ≥ S
/// \param stage of each stage, all its chunks
std::optional<double> formula_seconds(PipelineSchedule schedule, int stages, int chunks, int micro_batches,
                                      const PassSeconds& stage);

/// The most flights of a stage at a time, in micro-batches × chunks.
///   naive 1; gpipe m; 1f1b min(m, S−s)
///   interleaved      min(vm, (v−1)g + 2(S−s) − 1)            g: the largest of interleaved_groups; S where S divides m
///   zero_bubble      min(m, S)
int formula_flights(PipelineSchedule schedule, int stages, int chunks, int micro_batches, int stage);

}  // namespace unisono::parallel
