#pragma once

#include "unisono/base/config.hpp"

namespace unisono::parallel {

/// The order in which the stages of a pipeline run the passes of a step's micro-batches. A file for each, with its
/// paper, in src/parallel/pipeline/.
enum class PipelineSchedule { naive, gpipe, one_forward_one_backward, interleaved, zero_bubble };

inline constexpr Named<PipelineSchedule> kPipelineSchedules[] = {
    {PipelineSchedule::naive, "naive", "one stage works at a time; the least memory"},
    {PipelineSchedule::gpipe, "gpipe", "all forward passes, then all backward passes; the most memory"},
    {PipelineSchedule::one_forward_one_backward, "1f1b",
     "forward and backward passes in turn: as fast as gpipe, with at most as many activations as stages"},
    {PipelineSchedule::interleaved, "interleaved",
     "1f1b with several pieces of the model on each rank: shorter idle times, more messages and activations"},
    {PipelineSchedule::zero_bubble, "zero_bubble",
     "1f1b with the gradients of weights computed in the idle times (ZB-H1)"}};

}  // namespace unisono::parallel
