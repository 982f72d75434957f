// Dense layers of few examples. A register of examples would be mostly empty: it holds units instead, or inputs. Each
// weight is read once, which takes most of the time, and multiplied with all examples.
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kAhead = 64;  ///< floats of each row of W

/// Some inputs of kLanes units, of which the rows of W are at `rows`: each lane is a unit.
template <Count examples, typename Lanes>
inline void add_inputs(const FewExamplesShape& shape, const float* const (&rows)[kLanes], Count first, Lanes lanes,
                       const float* x, Vector (&sums)[examples]) {
  Vector weights[kLanes];
#pragma GCC unroll 16
  for (Count i = 0; i < kLanes; ++i) {
    weights[i] = lanes.get(rows[i] + first);
    __builtin_prefetch(rows[i] + first + kAhead);
  }
  transpose_registers(weights);
#pragma GCC unroll 16
  for (Count i = 0; i < kLanes; ++i) {
    if (i >= lanes.count) break;
#pragma GCC unroll 4
    for (Count e = 0; e < examples; ++e) {
      sums[e] = multiply_add(weights[i], broadcast(x[(first + i) * shape.lanes + e]), sums[e]);
    }
  }
}

/// y of the units from `unit` on, kLanes of them or all that are left. Units that do not exist are computed as if they
/// were the last.
template <Count examples>
inline void forward_units(const FewExamplesShape& shape, Count unit, const float* x, const float* w, const float* bias,
                          float* y) {
  const float* rows[kLanes];
  for (Count i = 0; i < kLanes; ++i) rows[i] = w + (unit + i < shape.units ? unit + i : shape.units - 1) * shape.ldw;
  Vector sums[examples] = {};
  for_each_vector(shape.in, [&](Count i, auto lanes) { add_inputs<examples>(shape, rows, i, lanes, x, sums); });
  const Count units = shape.units - unit < kLanes ? shape.units - unit : kLanes;
  for (Count e = 0; e < examples; ++e) {
    Vector sum = sums[e];
    if (bias != nullptr) sum += load_first(bias + unit, units);
    if (shape.relu) sum = sum < 0.0F ? Vector{} : sum;  // a NaN stays NaN
    store_first(y + e * shape.ld + unit, sum, units);
  }
}

template <Count examples>
void forward_of(const FewExamplesShape& shape, const float* x, const float* w, const float* bias, float* y) {
  for (Count unit = 0; unit < shape.units; unit += kLanes) forward_units<examples>(shape, unit, x, w, bias, y);
}

#if defined(__AVX512F__)  // 32 registers
constexpr Count kUnits = 4;
#else  // 16 registers
constexpr Count kUnits = 2;
#endif
constexpr Count kInputs = 1024;  ///< of which dx stays in the first-level cache

/// dx of `inputs` inputs += Σ W dy of some units, each lane an input.
template <Count examples, Count units>
inline void add_units(const FewExamplesShape& shape, Count inputs, const float* dy, const float* w, float* dx) {
  Vector factors[units][examples];
  for (Count u = 0; u < units; ++u) {
    for (Count e = 0; e < examples; ++e) factors[u][e] = broadcast(dy[u * shape.lanes + e]);
  }
  for_each_vector(inputs, [&](Count i, auto lanes) {
    Vector weights[units];
#pragma GCC unroll 4
    for (Count u = 0; u < units; ++u) weights[u] = lanes.get(w + u * shape.ldw + i);
#pragma GCC unroll 4
    for (Count e = 0; e < examples; ++e) {
      Vector sum = lanes.get(dx + e * shape.ld + i);
#pragma GCC unroll 4
      for (Count u = 0; u < units; ++u) sum = multiply_add(weights[u], factors[u][e], sum);
      lanes.put(dx + e * shape.ld + i, sum);
    }
  });
}

template <Count examples>
void backward_of(const FewExamplesShape& shape, const float* dy, const float* w, float* dx) {
  for (Count first = 0; first < shape.in; first += kInputs) {
    const Count inputs = shape.in - first < kInputs ? shape.in - first : kInputs;
    for (Count e = 0; e < examples; ++e) {
      for (Count i = 0; i < inputs; ++i) dx[e * shape.ld + first + i] = 0.0F;
    }
    Count unit = 0;
    for (; unit + kUnits <= shape.units; unit += kUnits) {
      add_units<examples, kUnits>(shape, inputs, dy + unit * shape.lanes, w + unit * shape.ldw + first, dx + first);
    }
    for (; unit < shape.units; ++unit) {
      add_units<examples, 1>(shape, inputs, dy + unit * shape.lanes, w + unit * shape.ldw + first, dx + first);
    }
  }
}

template <Count examples>
void weights_of(const FewExamplesShape& shape, const float* dy, const float* x, float* dw) {
  Vector factors[examples];
  for (Count e = 0; e < examples; ++e) factors[e] = broadcast(dy[e]);
  for_each_vector(shape.in, [&](Count i, auto lanes) {
    Vector sum{};
#pragma GCC unroll 8
    for (Count e = 0; e < examples; ++e) {
      sum = multiply_add(lanes.get(x + e * shape.ld + i), factors[e], sum);
    }
    lanes.put(dw + i, sum);
  });
}

void forward(const FewExamplesShape& shape, const float* x, const float* w, const float* bias, float* y) {
  static constexpr decltype(FewExamplesLoops::forward) kOf[FewExamplesLoops::kMost] = {forward_of<1>, forward_of<2>,
                                                                                       forward_of<3>, forward_of<4>};
  kOf[shape.examples - 1](shape, x, w, bias, y);
}

void backward(const FewExamplesShape& shape, const float* dy, const float* w, float* dx) {
  static constexpr decltype(FewExamplesLoops::backward) kOf[FewExamplesLoops::kMost] = {backward_of<1>, backward_of<2>,
                                                                                        backward_of<3>, backward_of<4>};
  kOf[shape.examples - 1](shape, dy, w, dx);
}

void weights(const FewExamplesShape& shape, const float* dy, const float* x, float* dw) {
  static constexpr decltype(FewExamplesLoops::weights) kOf[FewExamplesLoops::kMostWeights] = {
      weights_of<1>, weights_of<2>, weights_of<3>, weights_of<4>,
      weights_of<5>, weights_of<6>, weights_of<7>, weights_of<8>};
  kOf[shape.examples - 1](shape, dy, x, dw);
}

}  // namespace

void add_few_examples(Loops& loops) { loops.few_examples = {forward, backward, weights}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
