// Skip-gram with outputs that a window shares: three products of small matrices, as in Ji et al., 2016. With X the
// context's rows [C][D], Y the outputs' [O][D]:
//   Z = X Yᵀ,   E = rate · (T − σ(Z)),   X ← X + E Y,   Y ← Y + Eᵀ X (old)
// The two updates go by columns of one or two registers: the outputs' old and new values stay in registers while the
// context streams by, so that all 2 C O D multiply-adds have their operands in registers. 6 C O D flops in all.
#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/next_rows.hpp"
#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector_math.hpp"
#include "cpu/races.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

#if defined(__AVX512F__)  // 32 registers
constexpr Count kRows = 4, kStep = 2 * kLanes;
#else  // 16 registers
constexpr Count kRows = 2, kStep = kLanes;
#endif
constexpr Count kColumns = 6;  ///< outputs at a time: a word and five others

constexpr Count kSlack = 32;  ///< what writing whole registers may need beyond the last value

/// The rows of one window, each word of the context once, and the intermediate matrices Z and E.
struct Work {
  float* x[kMaximumWindow];
  float times[kMaximumWindow];  ///< how often the word stands in the context
  float* y[kMaximumOutputs];
  Count words, outputs, width;
  bool repeated;
  float rate;
  NextRows next;
  alignas(64) float targets[kRows * kColumns + kSlack];                  ///< of one tile
  alignas(64) float margins[kMaximumWindow * kMaximumOutputs + kSlack];  ///< [words][outputs]
  alignas(64) float errors[kMaximumWindow * kMaximumOutputs + kSlack];
};

bool any_twice(const std::int32_t* words, Count count) {
  if (count <= 8) {  // a few comparisons take less time than getting at lanes of a register
    bool twice = false;
    for (Count i = 1; i < count; ++i) {
      for (Count k = 0; k < i; ++k) twice |= words[k] == words[i];
    }
    return twice;
  }
  for (Count start = 0; start < count; start += kLanes) {
    const Integers lanes = load_first(words + start, count - start < kLanes ? count - start : kLanes);
    Integers found{};
    for (Count i = 0; i < count; ++i) found += lanes == words[i] - Integers{};
    bool twice = false;
    for (Count lane = 0; lane < kLanes; ++lane) twice |= found[lane] < -1;
    if (twice) return true;
  }
  return false;
}

/// A word that stands in the context twice has one row with twice the error: both updates see the old values.
void merge_words(const Window& window, const RowMatrix& inputs, Work& work) {
  work.words = 0;
  for (Count i = 0; i < window.words; ++i) {
    float* const row = inputs.values + window.context[i] * inputs.stride;
    Count a = 0;
    while (a < work.words && work.x[a] != row) ++a;
    if (a == work.words) work.times[work.words++] = 0.0F;
    work.x[a] = row;
    work.times[a] += 1.0F;
  }
}

void find_rows(const Window& window, const RowMatrix& inputs, const RowMatrix& outputs, Work& work) {
  work.repeated = any_twice(window.context, window.words);
  work.words = window.words;
  work.outputs = window.outputs;
  work.width = inputs.width;
  work.rate = window.rate;
  if (work.repeated) {
    merge_words(window, inputs, work);
  } else {
    for (Count a = 0; a < work.words; ++a) work.x[a] = inputs.values + window.context[a] * inputs.stride;
  }
  for (Count o = 0; o < work.outputs; ++o) work.y[o] = outputs.values + window.rows[o] * outputs.stride;
  work.next.find(window, inputs, outputs);
}

// Z = X Yᵀ, E = rate · (T − σ(Z))
// -------------------------------

/// A tile's values, one after the other, into a matrix of which they are `columns` columns.
template <Count rows, Count columns>
__attribute__((always_inline)) inline void store_tile(const Vector* values, Count stride, float* to) {
  constexpr Count registers = (rows * columns + kLanes - 1) / kLanes;
  if (columns == stride) {  // the rest of the last register is overwritten by the next tile
#pragma GCC unroll 8
    for (Count r = 0; r < registers; ++r) store(to + r * kLanes, values[r]);
    return;
  }
  float tile[registers * kLanes];
#pragma GCC unroll 8
  for (Count r = 0; r < registers; ++r) store(tile + r * kLanes, values[r]);
  for (Count i = 0; i < rows; ++i) {
    for (Count j = 0; j < columns; ++j) to[i * stride + j] = tile[i * columns + j];
  }
}

/// A tile of Z, and at once its E. The latency of E is long; the CPU overlaps it with the next tile's products.
template <Count rows, Count columns>
UNISONO_RACES_BY_DESIGN void error_tile(Work& work, Count a, Count o) {
  Vector sums[rows * columns] = {};
  for (Count at = 0; at < work.width; at += kLanes) {
    if (a + o == 0 && at % kLine == 0) work.next.fetch_outputs(at);
    Vector x[rows];
#pragma GCC unroll 4
    for (Count i = 0; i < rows; ++i) x[i] = load(work.x[a + i] + at);
#pragma GCC unroll 6
    for (Count j = 0; j < columns; ++j) {
      const Vector y = load(work.y[o + j] + at);
#pragma GCC unroll 4
      for (Count i = 0; i < rows; ++i) sums[i * columns + j] += x[i] * y;
    }
  }
  constexpr Count registers = (rows * columns + kLanes - 1) / kLanes;
  Vector z[registers], e[registers];
  add_lanes<rows * columns>(sums, z);
#pragma GCC unroll 8
  for (Count r = 0; r < registers; ++r) e[r] = work.rate * (load(work.targets + r * kLanes) - logistic(z[r]));
  store_tile<rows, columns>(z, work.outputs, work.margins + a * work.outputs + o);
  store_tile<rows, columns>(e, work.outputs, work.errors + a * work.outputs + o);
}

template <Count most, Count columns>
void error_rows(Work& work, Count a, Count o) {
  if constexpr (most > 1) {
    if (work.words - a < most) return error_rows<most - 1, columns>(work, a, o);
  }
  error_tile<most, columns>(work, a, o);
}

template <Count most>
void error_columns(const Window& window, Work& work, Count o) {
  if constexpr (most > 1) {
    if (work.outputs - o < most) return error_columns<most - 1>(window, work, o);
  }
  for (Count i = 0; i < kRows; ++i) {
    for (Count j = 0; j < most; ++j) work.targets[i * most + j] = window.targets[o + j];
  }
  for (Count a = 0; a < work.words; a += kRows) error_rows<kRows, most>(work, a, o);
}

void find_errors(const Window& window, Work& work) {
  for (Count o = 0; o < work.outputs; o += kColumns) error_columns<kColumns>(window, work, o);
  if (!work.repeated) return;
  for (Count a = 0; a < work.words; ++a) {
    for (Count o = 0; o < work.outputs; ++o) work.errors[a * work.outputs + o] *= work.times[a];
  }
}

/// Σ −ln σ(z) where the target is 1, −ln σ(−z) where it is 0.
double loss_of(const Window& window, const Work& work) {
  double sum = 0;
  for (Count a = 0; a < work.words; ++a) {
    const float* const margins = work.margins + a * work.outputs;
    double row = 0;
    for (Count o = 0; o < work.outputs; ++o) {
      const float wrong = (1.0F - 2.0F * window.targets[o]) * margins[o];
      row += static_cast<double>((wrong < 0.0F ? 0.0F : wrong) + softplus_tail(wrong));
    }
    sum += work.repeated ? static_cast<double>(work.times[a]) * row : row;
  }
  return sum;
}

// X ← X + E Y,  Y ← Y + Eᵀ X
// --------------------------

/// Columns of `registers` registers from `at` on. \param kept their old values of X [words][registers] where X has
/// taken steps for other outputs already, else null
template <Count columns, Count registers, bool kKept>
UNISONO_RACES_BY_DESIGN void update_tile(const Work& work, Count o, Count at, const float* kept) {
  Vector old[columns][registers], fresh[columns][registers];
#pragma GCC unroll 6
  for (Count j = 0; j < columns; ++j) {
#pragma GCC unroll 2
    for (Count r = 0; r < registers; ++r) fresh[j][r] = old[j][r] = load(work.y[o + j] + at + r * kLanes);
  }
  const float* error = work.errors + o;
  for (Count a = 0; a < work.words; ++a, error += work.outputs) {
    Vector x[registers], moved[registers];
#pragma GCC unroll 2
    for (Count r = 0; r < registers; ++r) {
      moved[r] = load(work.x[a] + at + r * kLanes);
      x[r] = kKept ? load(kept + (a * registers + r) * kLanes) : moved[r];
    }
#pragma GCC unroll 6
    for (Count j = 0; j < columns; ++j) {
      const Vector e = broadcast(error[j]);
#pragma GCC unroll 2
      for (Count r = 0; r < registers; ++r) {
        moved[r] += e * old[j][r];
        fresh[j][r] += e * x[r];
      }
    }
#pragma GCC unroll 2
    for (Count r = 0; r < registers; ++r) store(work.x[a] + at + r * kLanes, moved[r]);
  }
#pragma GCC unroll 6
  for (Count j = 0; j < columns; ++j) {
#pragma GCC unroll 2
    for (Count r = 0; r < registers; ++r) store(work.y[o + j] + at + r * kLanes, fresh[j][r]);
  }
}

template <Count columns>
void update_all(const Work& work) {
  Count at = 0;
  for (; at + kStep <= work.width; at += kStep) {
    for (Count line = at; line < at + kStep; line += kLine) work.next.fetch_inputs(line);
    update_tile<columns, kStep / kLanes, false>(work, 0, at, nullptr);
  }
  for (; at < work.width; at += kLanes) {
    work.next.fetch_inputs(at);
    update_tile<columns, 1, false>(work, 0, at, nullptr);
  }
}

template <Count most>
void update_some(const Work& work, Count o, Count at, const float* kept) {
  if constexpr (most > 1) {
    if (work.outputs - o < most) return update_some<most - 1>(work, o, at, kept);
  }
  update_tile<most, 1, true>(work, o, at, kept);
}

/// For more outputs than registers.
UNISONO_RACES_BY_DESIGN void update_in_parts(const Work& work) {
  alignas(64) float kept[kMaximumWindow * kLanes];
  for (Count at = 0; at < work.width; at += kLanes) {
    work.next.fetch_inputs(at);
    for (Count a = 0; a < work.words; ++a) store(kept + a * kLanes, load(work.x[a] + at));
    for (Count o = 0; o < work.outputs; o += kColumns) update_some<kColumns>(work, o, at, kept);
  }
}

template <Count most>
void update(const Work& work) {
  if constexpr (most > 1) {
    if (work.outputs < most) return update<most - 1>(work);
  }
  update_all<most>(work);
}

double skip_gram(const Window& window, const RowMatrix& inputs, const RowMatrix& outputs) {
  Work work;
  find_rows(window, inputs, outputs, work);
  find_errors(window, work);
  if (work.outputs > kColumns) {
    update_in_parts(work);
  } else {
    update<kColumns>(work);
  }
  return window.want_loss ? loss_of(window, work) : 0.0;
}

}  // namespace

void add_skip_gram(Loops& loops) { loops.in_place.skip_gram = skip_gram; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
