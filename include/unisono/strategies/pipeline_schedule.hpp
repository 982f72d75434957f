#pragma once

#include "unisono/base/config.hpp"

namespace unisono::strategies {

/// In which order a stage of a pipeline runs the passes of a step's micro-batches.
enum class PipelineSchedule { naive, gpipe, one_forward_one_backward, interleaved, zero_bubble };

inline constexpr Named<PipelineSchedule> kPipelineSchedules[] = {
    {PipelineSchedule::naive, "naive", "one stage works at a time: a micro-batch ends before the next one begins"},
    {PipelineSchedule::gpipe, "gpipe", "all forward passes, then all backward passes (Huang et al. 2019)"},
    {PipelineSchedule::one_forward_one_backward, "1f1b",
     "forward and backward passes by turns: as fast as gpipe, with fewer activations (Narayanan et al. 2019)"},
    {PipelineSchedule::interleaved, "interleaved",
     "1f1b, where each stage has several pieces of the model: less waiting, more messages (Narayanan et al. 2021)"},
    {PipelineSchedule::zero_bubble, "zero_bubble",
     "1f1b, where gradients of weights are computed when a stage would wait (ZB-H1, Qi et al. 2024)"}};

}  // namespace unisono::strategies
