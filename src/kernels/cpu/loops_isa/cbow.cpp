// Continuous bag of words: h = mean of the context's rows predicts the outputs, which are distinct, so that all dot
// products may come before all updates:
//   z_o = h · y_o,   e_o = rate · (t_o − σ(z_o)),   δ = Σ_o e_o y_o,   y_o ← y_o + e_o h,   x_a ← x_a + δ
// Where a row fits into 8 registers, h and δ stay in registers, and whole rows follow each other. Else there are two
// passes over the columns, a register at a time; h is computed in both, since that costs less than storing it. Both do
// the same operations in the same order. D (2 C + 6 O) flops; C + O rows are read and written.
#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/next_rows.hpp"
#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector_math.hpp"
#include "cpu/races.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kColumns = 6;  ///< outputs at a time

struct Work {
  float* x[kMaximumWindow];
  float* y[kMaximumOutputs];
  Count words, outputs, width;
  float share, rate;
  NextRows next;
  alignas(64) float margins[kMaximumOutputs + kLanes];
  alignas(64) float errors[kMaximumOutputs + kLanes];
};

void find_rows(const Window& window, const RowMatrix& inputs, const RowMatrix& outputs, Work& work) {
  work.words = window.words;
  work.outputs = window.outputs;
  work.width = inputs.width;
  work.share = 1.0F / static_cast<float>(window.words);
  work.rate = window.rate;
  for (Count a = 0; a < work.words; ++a) work.x[a] = inputs.values + window.context[a] * inputs.stride;
  for (Count o = 0; o < work.outputs; ++o) work.y[o] = outputs.values + window.rows[o] * outputs.stride;
  work.next.find(window, inputs, outputs);
}

/// One register of h.
__attribute__((always_inline)) inline Vector mean(const Work& work, Count at) {
  Vector sum = load(work.x[0] + at);
  for (Count a = 1; a < work.words; ++a) sum += load(work.x[a] + at);
  return sum * work.share;
}

template <Count columns>
UNISONO_RACES_BY_DESIGN void find_margins(Work& work, Count o) {
  Vector sums[columns] = {};
  for (Count at = 0; at < work.width; at += kLanes) {
    if (o == 0 && at % kLine == 0) work.next.fetch_outputs(at);
    const Vector h = mean(work, at);
#pragma GCC unroll 6
    for (Count j = 0; j < columns; ++j) sums[j] += h * load(work.y[o + j] + at);
  }
  constexpr Count registers = (columns + kLanes - 1) / kLanes;
  Vector totals[registers];
  add_lanes<columns>(sums, totals);
#pragma GCC unroll 2
  for (Count r = 0; r < registers; ++r) store(work.margins + o + r * kLanes, totals[r]);  // beyond: for the next
}

template <Count most>
void choose_margins(Work& work, Count o) {
  if constexpr (most > 1) {
    if (work.outputs - o < most) return choose_margins<most - 1>(work, o);
  }
  find_margins<most>(work, o);
}

void find_errors(const Window& window, Work& work) {
  for (Count o = 0; o < work.outputs; o += kLanes) {
    const Count some = work.outputs - o < kLanes ? work.outputs - o : kLanes;
    const Vector targets = load_first(window.targets + o, some);
    store(work.errors + o, work.rate * (targets - logistic(load(work.margins + o))));
  }
}

/// The outputs' step for one register of h. \return their part of δ
template <Count columns>
__attribute__((always_inline)) inline Vector move_outputs(const Work& work, Count o, Count at, Vector h) {
  Vector delta{};
#pragma GCC unroll 6
  for (Count j = 0; j < columns; ++j) {
    const Vector e = broadcast(work.errors[o + j]), y = load(work.y[o + j] + at);
    delta += e * y;
    store(work.y[o + j] + at, y + e * h);
  }
  return delta;
}

/// \tparam columns all outputs, or 0 for any number of them
template <Count columns>
UNISONO_RACES_BY_DESIGN void update(const Work& work) {
  for (Count at = 0; at < work.width; at += kLanes) {
    if (at % kLine == 0) work.next.fetch_inputs(at);
    const Vector h = mean(work, at);
    Vector delta{};
    if constexpr (columns > 0) {
      delta = move_outputs<columns>(work, 0, at, h);
    } else {
      for (Count o = 0; o < work.outputs; ++o) delta += move_outputs<1>(work, o, at, h);
    }
    for (Count a = 0; a < work.words; ++a) store(work.x[a] + at, load(work.x[a] + at) + delta);
  }
}

/// Σ −ln σ(z) where the target is 1, −ln σ(−z) where it is 0.
double loss_of(const Window& window, const Work& work) {
  double sum = 0;
  for (Count o = 0; o < work.outputs; ++o) {
    const float wrong = (1.0F - 2.0F * window.targets[o]) * work.margins[o];
    sum += static_cast<double>((wrong < 0.0F ? 0.0F : wrong) + softplus_tail(wrong));
  }
  return sum;
}

// Rows of few registers
// ---------------------

/// A window of `columns` outputs, whose rows have `registers` registers.
template <Count columns, Count registers>
UNISONO_RACES_BY_DESIGN void step_rows(const Window& window, Work& work) {
  Vector h[registers], sums[columns] = {};
#pragma GCC unroll 8
  for (Count r = 0; r < registers; ++r) h[r] = load(work.x[0] + r * kLanes);
  for (Count a = 1; a < work.words; ++a) {
#pragma GCC unroll 8
    for (Count r = 0; r < registers; ++r) h[r] += load(work.x[a] + r * kLanes);
  }
#pragma GCC unroll 8
  for (Count r = 0; r < registers; ++r) {
    work.next.fetch_outputs(r * kLanes);
    h[r] *= work.share;
#pragma GCC unroll 6
    for (Count j = 0; j < columns; ++j) sums[j] += h[r] * load(work.y[j] + r * kLanes);
  }
  add_lanes<columns>(sums, sums);
  store(work.margins, sums[0]);
  find_errors(window, work);
  Vector delta[registers] = {};
#pragma GCC unroll 6
  for (Count j = 0; j < columns; ++j) {
    const Vector e = broadcast(work.errors[j]);
#pragma GCC unroll 8
    for (Count r = 0; r < registers; ++r) {
      const Vector y = load(work.y[j] + r * kLanes);
      delta[r] += e * y;
      store(work.y[j] + r * kLanes, y + e * h[r]);
    }
  }
#pragma GCC unroll 8
  for (Count r = 0; r < registers; ++r) work.next.fetch_inputs(r * kLanes);
  for (Count a = 0; a < work.words; ++a) {
#pragma GCC unroll 8
    for (Count r = 0; r < registers; ++r) {
      store(work.x[a] + r * kLanes, load(work.x[a] + r * kLanes) + delta[r]);
    }
  }
}

void step_columns(const Window& window, Work& work) {
  for (Count o = 0; o < work.outputs; o += kColumns) choose_margins<kColumns>(work, o);
  find_errors(window, work);
  switch (work.outputs) {
    case 6:
      update<6>(work);
      break;
    case 5:
      update<5>(work);
      break;
    default:
      update<0>(work);
  }
}

double cbow(const Window& window, const RowMatrix& inputs, const RowMatrix& outputs) {
  Work work;
  find_rows(window, inputs, outputs, work);
  if (kLanes == kLine && work.outputs == 6 && work.width == 7 * kLanes) {
    step_rows<6, 7>(window, work);
  } else if (kLanes == kLine && work.outputs == 6 && work.width == 4 * kLanes) {
    step_rows<6, 4>(window, work);
  } else {
    step_columns(window, work);
  }
  return window.want_loss ? loss_of(window, work) : 0.0;
}

}  // namespace

void add_cbow(Loops& loops) { loops.in_place.cbow = cbow; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
