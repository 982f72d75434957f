// Matrix factorization by stochastic gradient steps, one rating after the other:
//   e = r − (mean + b_u + c_i + p · q);   g_p = e q − λ_u p,  g_q = e p − λ_i q;   p ← p + η_u g_p,  q ← q + η_i g_q
//   η = rate / √h, then h ← h + ‖g‖² / K, one h per row: Chin et al., PAKDD 2015. Plain SGD: η = rate.
// A rating costs some 16 K flops (12 K without h) and reads and writes 8 K bytes. Consecutive ratings of one user wait
// for each other: dot product, error and step are a dependency chain of some 60 cycles.
#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/races.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kBlock = 256;  ///< ratings whose errors are added up together
constexpr Count kAhead = 8;    ///< how many ratings ahead rows are prefetched

struct Problem {
  const FactorStep& step;
  const FactorRows& users;
  const FactorRows& items;
};

__attribute__((always_inline)) inline float* row_of(const FactorRows& rows, std::uint32_t i) {
  return rows.factors.values + static_cast<Count>(i) * rows.factors.stride;
}

__attribute__((always_inline)) inline void fetch(const float* row, Count width) {
  for (Count at = 0; at <= width; at += 16) __builtin_prefetch(row + at, 1);
}

/// Σ p q, in every lane
template <Count kWidth>
__attribute__((always_inline)) inline Vector dot(const float* p, const float* q, Count any_width) {
  const Count width = kWidth > 0 ? kWidth : any_width;
  Vector sum = load(p) * load(q);
#pragma GCC unroll 16
  for (Count at = kLanes; at < width; at += kLanes) sum += load(p + at) * load(q + at);
  return add_all_lanes(sum);
}

/// η and λ of a row in a step.
struct RateAndPenalty {
  float rate, l2;
};

/// The steps of p and q for an error e. \return ‖g_p‖² and ‖g_q‖² in its first two lanes
template <Count kWidth, bool kAdagrad>
__attribute__((always_inline)) inline Vector move(const Problem& problem, Vector e, RateAndPenalty user,
                                                  RateAndPenalty item, float* p, float* q) {
  const Count width = kWidth > 0 ? kWidth : problem.users.factors.width;
  Vector squares[2] = {};
#pragma GCC unroll 16
  for (Count at = 0; at < width; at += kLanes) {
    const Vector old_p = load(p + at), old_q = load(q + at);
    const Vector g_p = e * old_q - user.l2 * old_p, g_q = e * old_p - item.l2 * old_q;
    store(p + at, old_p + user.rate * g_p);
    store(q + at, old_q + item.rate * g_q);
    if (kAdagrad) {
      squares[0] += g_p * g_p;
      squares[1] += g_q * g_q;
    }
  }
  Vector norms{};
  if (kAdagrad) add_lanes<2>(squares, &norms);
  return norms;
}

/// One rating's step. \return e
template <Count kWidth, bool kAdagrad, bool kBiases, bool kOwnL2>
__attribute__((always_inline)) inline float take(const Problem& problem, const SparseEntry& rating,
                                                 float inverse_rank) {
  const FactorStep& step = problem.step;
  const Count width = kWidth > 0 ? kWidth : problem.users.factors.width;
  float* const p = row_of(problem.users, rating.row);
  float* const q = row_of(problem.items, rating.column);
  float* const p_end = p + width;  // bias, h, λ
  float* const q_end = q + width;
  float target = rating.value - step.mean;
  if (kBiases) target -= p_end[0] + q_end[0];
  const Vector errors = broadcast(target) - dot<kWidth>(p, q, width);
  const float e = errors[0];
  const RateAndPenalty user{kAdagrad ? step.rate / __builtin_sqrtf(p_end[1]) : step.rate,
                            kOwnL2 ? p_end[2] : step.user_l2};
  const RateAndPenalty item{kAdagrad ? step.rate / __builtin_sqrtf(q_end[1]) : step.rate,
                            kOwnL2 ? q_end[2] : step.item_l2};
  const Vector norms = move<kWidth, kAdagrad>(problem, errors, user, item, p, q);
  if (kAdagrad) {
    p_end[1] += inverse_rank * norms[0];
    q_end[1] += inverse_rank * norms[1];
  }
  if (kBiases) {
    p_end[0] += user.rate * (e - user.l2 * p_end[0]);
    q_end[0] += item.rate * (e - item.l2 * q_end[0]);
  }
  return e;
}

void add_errors(const float* errors, Count count, InPlaceSums& sums) {
  double squared[kLanes] = {}, absolute[kLanes] = {};
  for (Count start = 0; start < count; start += kLanes) {  // behind the last error are zeros
#pragma omp simd
    for (Count lane = 0; lane < kLanes; ++lane) {
      const auto e = static_cast<double>(errors[start + lane]);
      squared[lane] += e * e;
      absolute[lane] += __builtin_fabs(e);
    }
  }
  for (Count lane = 1; lane < kLanes; ++lane) {
    squared[0] += squared[lane];
    absolute[0] += absolute[lane];
  }
  sums.squared_error += squared[0];
  sums.absolute_error += absolute[0];
}

template <Count kWidth, bool kAdagrad, bool kBiases, bool kOwnL2>
UNISONO_RACES_BY_DESIGN void run(const SparseEntry* ratings, Count count, const Problem& problem, InPlaceSums& sums) {
  const Count width = kWidth > 0 ? kWidth : problem.users.factors.width;
  const float inverse_rank = 1.0F / static_cast<float>(problem.users.rank);
  alignas(64) float errors[kBlock + kLanes];
  for (Count start = 0; start < count; start += kBlock) {
    const Count some = count - start < kBlock ? count - start : kBlock;
    for (Count i = 0; i < some; ++i) {
      const Count ahead = start + i + kAhead < count ? start + i + kAhead : count - 1;
      fetch(row_of(problem.users, ratings[ahead].row), width);
      fetch(row_of(problem.items, ratings[ahead].column), width);
      errors[i] = take<kWidth, kAdagrad, kBiases, kOwnL2>(problem, ratings[start + i], inverse_rank);
    }
    store(errors + some, Vector{});
    add_errors(errors, some, sums);
  }
}

template <Count kWidth, bool kAdagrad, bool kBiases>
void run_rule(const SparseEntry* ratings, Count count, const Problem& problem, InPlaceSums& sums) {
  const bool own_l2 = problem.step.own_l2;
  (own_l2 ? run<kWidth, kAdagrad, kBiases, true> : run<kWidth, kAdagrad, kBiases, false>)(ratings, count, problem,
                                                                                          sums);
}

template <Count kWidth>
void run_width(const SparseEntry* ratings, Count count, const Problem& problem, InPlaceSums& sums) {
  const bool biases = problem.step.biases;
  if (problem.step.adagrad) {
    (biases ? run_rule<kWidth, true, true> : run_rule<kWidth, true, false>)(ratings, count, problem, sums);
  } else {
    (biases ? run_rule<kWidth, false, true> : run_rule<kWidth, false, false>)(ratings, count, problem, sums);
  }
}

void factorize(const SparseEntry* ratings, Count count, const FactorStep& step, const FactorRows& users,
               const FactorRows& items, InPlaceSums& sums) {
  const Problem problem{step, users, items};
  switch (users.factors.width) {
    case 16:
      return run_width<16>(ratings, count, problem, sums);
    case 32:
      return run_width<32>(ratings, count, problem, sums);
    case 48:
      return run_width<48>(ratings, count, problem, sums);
    case 64:
      return run_width<64>(ratings, count, problem, sums);
    default:
      return run_width<0>(ratings, count, problem, sums);
  }
}

}  // namespace

void add_factorize(Loops& loops) { loops.in_place.factorize = factorize; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
