#pragma once

#include "cpu/loops_isa/table.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {

/// The rows of the next window. They are prefetched a cache line of each at a time, between the steps of a kernel's
/// loops, so that there are never more requests than the CPU can keep under way: all of them at once, before a window,
/// took 13 % of the time of training.
struct NextRows {
  const float* outputs[kMaximumOutputs];
  const float* inputs[kMaximumWindow];
  Count outputs_count, inputs_count;

  void find(const Window& window, const RowMatrix& input_rows, const RowMatrix& output_rows) {
    outputs_count = window.next_outputs;
    inputs_count = window.next_words;
    for (Count o = 0; o < outputs_count; ++o) {
      outputs[o] = output_rows.values + window.next_rows[o] * output_rows.stride;
    }
    for (Count a = 0; a < inputs_count; ++a) {
      inputs[a] = input_rows.values + window.next_context[a] * input_rows.stride;
    }
  }
  __attribute__((always_inline)) void fetch_outputs(Count at) const {
    for (Count o = 0; o < outputs_count; ++o) __builtin_prefetch(outputs[o] + at, 1);
  }
  __attribute__((always_inline)) void fetch_inputs(Count at) const {
    for (Count a = 0; a < inputs_count; ++a) __builtin_prefetch(inputs[a] + at, 1);
  }
};

constexpr Count kLine = 16;  ///< floats

}  // namespace unisono::kernels::cpu::UNISONO_ISA
