#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"
#include "cpu/loops_isa/vector_math.hpp"

// What attention does beside its products (cpu/attention.cpp): softmax of blocks of scores and its gradient.
// Exponentials are powers of two, and all logarithms are to base 2, so that a score takes one multiply-add before its
// power.

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kGroup = 16;             ///< queries or keys that share a border on the diagonal, see ScoreShape
constexpr float kLog2E = 0x1.715476p0F;  ///< log₂ e
constexpr float kLn2 = 0x1.62e430p-1F;   ///< ln 2

void copy(Count rows, Count lanes, const float* from, Count from_stride, float* to, Count to_stride) {
  for (Count i = 0; i < rows; ++i, from += from_stride, to += to_stride) {
    for_each_vector(lanes, [&](Count lane, auto some) { some.put(to + lane, some.get(from + lane)); });
  }
}

void rotate(Count half, const float* table, float sign, float* x) {
  for (Count i = 0; i < half; ++i, table += 2 * kMaximumLanes) {
    float* const upper = x + i * kMaximumLanes;
    float* const lower = x + (half + i) * kMaximumLanes;
    for (Count lane = 0; lane < kMaximumLanes; lane += kLanes) {
      const Vector cosine = load(table + lane), sine = sign * load(table + kMaximumLanes + lane);
      const Vector first = load(upper + lane), second = load(lower + lane);
      store(upper + lane, first * cosine - second * sine);
      store(lower + lane, second * cosine + first * sine);
    }
  }
}

/// 0, 1, 2, …
inline Integers lane_numbers() {
  Integers numbers{};
  for (Count i = 0; i < kLanes; ++i) numbers[i] = static_cast<std::int32_t>(i);
  return numbers;
}

inline Count least(Count a, Count b) { return a < b ? a : b; }

/// The scores of the queries of one register: those of the keys before `seen` are seen by all, of those before `end` by
/// some.
struct ScoreColumn {
  float* scores;
  Count lane, seen, end, free;

  float* at(Count key) const { return scores + key * kMaximumLanes; }
  Integers visible(Count key) const { return lane_numbers() >= static_cast<std::int32_t>(key - free - lane); }
};

inline Vector largest_of(const ScoreColumn& column) {
  const Vector none = broadcast(-__builtin_inff());
  Vector largest[2] = {none, none};
  Count key = 0;
  for (; key + 2 <= column.seen; key += 2) {
    largest[0] = at_least(largest[0], load(column.at(key)));
    largest[1] = at_least(largest[1], load(column.at(key + 1)));
  }
  for (; key < column.end; ++key) {
    largest[0] = at_least(largest[0], column.visible(key) ? load(column.at(key)) : none);
  }
  return at_least(largest[0], largest[1]);
}

/// Scores become exponentials. \return their sum
inline Vector exponentiate(const ScoreColumn& column, Vector factor, Vector largest) {
  const auto power = [&](Count key) {
    return power_of_two(at_least(broadcast(-126.0F), load(column.at(key)) * factor - largest));
  };
  Vector sums[2] = {};
  Count key = 0;
  for (; key + 2 <= column.seen; key += 2) {
    const Vector first = power(key), second = power(key + 1);
    store(column.at(key), first);
    store(column.at(key + 1), second);
    sums[0] += first;
    sums[1] += second;
  }
  for (; key < column.end; ++key) {
    const Vector some = keep(column.visible(key), power(key));
    store(column.at(key), some);
    sums[0] += some;
  }
  return sums[0] + sums[1];
}

void probabilities(const ScoreShape& shape, float* scores, RunningSoftmax& running) {
  for (Count lane = 0; lane < shape.queries; lane += kLanes) {
    const Count group = lane / kGroup * kGroup + kGroup;
    const ScoreColumn column{scores + lane, lane, least(shape.keys, shape.free + lane),
                             least(shape.keys, shape.free + group), shape.free};
    const Vector factor = broadcast(shape.factor), before = load(running.largest + lane);
    const Vector largest = at_least(before, largest_of(column) * factor);
    const Vector correction = power_of_two(at_least(broadcast(-126.0F), before - largest));
    const Vector sum = exponentiate(column, factor, largest);
    store(running.largest + lane, largest);
    store(running.correction + lane, correction);
    store(running.sum + lane, load(running.sum + lane) * correction + sum);
  }
}

void finish(Count queries, const RunningSoftmax& running, float* log_sums, float* inverse) {
#pragma omp simd
  for (Count lane = 0; lane < queries; ++lane) {
    log_sums[lane] = running.largest[lane] * kLn2 + natural_logarithm(running.sum[lane]);
    inverse[lane] = 1.0F / running.sum[lane];
  }
}

void scale(Count rows, Count lanes, const float* factors, const float* x, float* y) {
  for (Count i = 0; i < rows; ++i) {
    for (Count lane = 0; lane < lanes; lane += kLanes) {
      store(y + i * kMaximumLanes + lane, load(x + i * kMaximumLanes + lane) * load(factors + lane));
    }
  }
}

/// Row by row, in the order of memory.
void dots(Count rows, const float* x, const float* y, float* sums) {
  constexpr Count kRegisters = kMaximumLanes / kLanes;
  Vector sum[kRegisters] = {};
  for (Count i = 0; i < rows; ++i, x += kMaximumLanes, y += kMaximumLanes) {
#pragma GCC unroll 16
    for (Count r = 0; r < kRegisters; ++r) sum[r] += load(x + r * kLanes) * load(y + r * kLanes);
  }
#pragma GCC unroll 16
  for (Count r = 0; r < kRegisters; ++r) store(sums + r * kLanes, sum[r]);
}

/// The numbers that the scores of one query share.
struct QueryTerms {
  Vector factor, scale, log_sum, dot;
};

template <bool masked>
__attribute__((always_inline)) inline void gradient(const QueryTerms& query, Integers visible, const float* mask,
                                                    float* score, float* gradient) {
  const Vector bounded = at_least(broadcast(-126.0F), load(score) * query.factor - query.log_sum);
  const Vector power = keep(visible, power_of_two(at_most(broadcast(126.0F), bounded)));
  const Vector kept = masked ? load(mask) : Vector{};
  store(score, masked ? power * kept : power);
  const Vector slope = (masked ? load(gradient) * kept : load(gradient)) - query.dot;
  store(gradient, keep(visible, power * query.scale * slope));
}

template <bool masked>
void gradients_of(const ScoreGradientShape& shape, const float* log_sums, const float* dots, const float* mask,
                  float* scores, float* gradients) {
  const Integers all = lane_numbers() >= 0;
  for (Count i = 0; i < shape.queries; ++i) {
    const QueryTerms query{broadcast(shape.factor), broadcast(shape.scale), broadcast(log_sums[i] * kLog2E),
                           broadcast(dots[i])};
    const Count row = i * kMaximumLanes, end = shape.diagonal ? i / kGroup * kGroup + kGroup : shape.keys;
    const Count seen = shape.diagonal ? i / kGroup * kGroup : end;  // by this query, and all beside it
    const auto at = [&](Count lane, Integers visible) {
      gradient<masked>(query, visible, masked ? mask + row + lane : nullptr, scores + row + lane,
                       gradients + row + lane);
    };
    for (Count lane = 0; lane < seen; lane += kLanes) at(lane, all);
    for (Count lane = seen; lane < end; lane += kLanes) at(lane, lane_numbers() <= static_cast<std::int32_t>(i - lane));
  }
}

void gradients(const ScoreGradientShape& shape, const float* log_sums, const float* dots, const float* mask,
               float* scores, float* gradients) {
  (mask == nullptr ? gradients_of<false> : gradients_of<true>)(shape, log_sums, dots, mask, scores, gradients);
}

void multiply(Count rows, Count lanes, const float* y, float* x) {
  for (Count i = 0; i < rows; ++i) {
    for (Count lane = 0; lane < lanes; lane += kLanes) {
      const Count at = i * kMaximumLanes + lane;
      store(x + at, load(x + at) * load(y + at));
    }
  }
}

}  // namespace

void add_attention(Loops& loops) {
  AttentionLoops& own = loops.attention;
  own.copy = copy;
  own.rotate = rotate;
  own.probabilities = probabilities;
  own.finish = finish;
  own.scale = scale;
  own.dots = dots;
  own.gradients = gradients;
  own.multiply = multiply;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
