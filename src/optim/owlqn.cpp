// Orthant-wise limited-memory quasi-Newton: L-BFGS for F(x) = f(x) + Σ λ_i |x_i|.
//     ⋄F_i = f'_i + λ_i sign(x_i), or where x_i = 0: f'_i shrunk towards 0 by λ_i     the subgradient of least norm
//     d = −H ⋄F, with d_i = 0 where d_i has not the sign of −⋄F_i                     H from the pairs of f alone
//     ξ_i = sign(x_i), or where x_i = 0: sign(−⋄F_i)                                  the orthant of the step
//     x(α) = x + α d, with 0 for elements that leave the orthant ξ
//     α: backtracking until F(x(α)) ≤ F(x) + δ ⋄F·(x(α) − x)
// Elements without a penalty are in no orthant: they are never set to 0, and their d is not changed.
// Andrew, Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.
// Cost of an iteration: as L-BFGS; each trial needs one reduction of three numbers. No vector more.
#include <algorithm>
#include <cmath>

#include "lbfgs.hpp"

namespace unisono::optim {
namespace {

float sign(float value) { return static_cast<float>((value > 0) - (value < 0)); }

float pseudo_gradient(float x, float g, double penalty) {
  const auto weight = static_cast<float>(penalty);
  if (x != 0) return g + weight * sign(x);
  return g > weight ? g - weight : (g < -weight ? g + weight : 0);
}

/// Calls visit(first, last, weight) for the parts of [first, last), in order; weight 0: no penalty.
template <typename Visit>
void for_each_part(std::span<const L1Range> ranges, Index first, Index last, const Visit& visit) {
  for (const L1Range& range : ranges) {
    if (range.last <= first) continue;
    if (range.first >= last) break;
    if (range.first > first) visit(first, range.first, 0.0);
    const Index end = std::min(range.last, last);
    visit(std::max(first, range.first), end, range.weight);
    first = end;
  }
  if (first < last) visit(first, last, 0.0);
}

}  // namespace

LbfgsHistory::GradientPiece pseudo_gradient_of(const BatchFunction& f, View x, View gradient) {
  return [ranges = f.l1(), x = x.data(), g = gradient.data()](Index first, Index last, float* room) {
    for_each_part(ranges, first, last, [&](Index from, Index to, double weight) {
      for (Index i = from; i < to; ++i) room[i - first] = weight > 0 ? pseudo_gradient(x[i], g[i], weight) : g[i];
    });
    return static_cast<const float*>(room);
  };
}

/// max |⋄F|; the trial gradient's memory is overwritten.
double Lbfgs::steepness(BatchFunction& f, View x) {
  const auto piece = pseudo_gradient_of(f, x, gradient().view());
  piece(0, std::ssize(x), step_.trial_gradient.data());
  return f.largest_magnitude(step_.trial_gradient.view());
}

void Lbfgs::start_orthantwise(BatchFunction& f, View x) {
  const double smooth = progress_.evaluate(f, x, gradient().view());
  double penalty = 0;
  f.sum({&penalty, 1}, [&](Index first, Index last, std::span<double> into) {
    for_each_part(f.l1(), first, last, [&](Index from, Index to, double weight) {
      for (Index i = from; i < to; ++i) into[0] += weight * std::abs(static_cast<double>(x.data()[i]));
    });
  });
  const double largest = f.largest_magnitude(gradient().view());
  progress_.start(smooth + penalty, steepness(f, x), largest);
  if (!progress_.ended()) history_.restart(f, piece_of(f, x));
}

void Lbfgs::iterate_orthantwise(BatchFunction& f, MutableView x) {
  bool found = step_orthantwise(history_.direction(), f, x);
  if (!found && history_.pairs() > 0) {
    history_.clear();
    found = step_orthantwise(history_.steepest(), f, x);
  }
  if (!found) return progress_.end(BatchEnd::no_decrease);
  take(f, x, step_.value);
}

namespace {

/// d_i ← 0 where it does not fall along ⋄F. \return ⋄F·d
double project_direction(BatchFunction& f, const LbfgsHistory::GradientPiece& pseudo, MutableView d) {
  double slope = 0;
  f.sum({&slope, 1}, [&](Index first, Index last, std::span<double> into) {
    for_each_piece(first, last, [&](Index from, Index to) {
      float room[kPiece];
      const float* const g = pseudo(from, to, room);
      for_each_part(f.l1(), from, to, [&](Index begin, Index end, double weight) {
        for (Index i = begin; i < end; ++i) {
          float& one = d.data()[i];
          if (weight > 0 && one * g[i - from] >= 0) one = 0;
          into[0] += static_cast<double>(one) * g[i - from];
        }
      });
    });
  });
  return slope;
}

/// trial = π(x + α d; ξ)
void project_step(const BatchFunction& f, View x, View d, const LbfgsHistory::GradientPiece& pseudo, float alpha,
                  MutableView trial) {
  for_each_piece(0, std::ssize(x), [&](Index first, Index last) {
    float room[kPiece];
    const float* const g = pseudo(first, last, room);
    for_each_part(f.l1(), first, last, [&](Index from, Index to, double weight) {
      for (Index i = from; i < to; ++i) {
        const float at = x.data()[i], next = at + alpha * d.data()[i];
        const float orthant = at != 0 ? at : -g[i - first];
        trial.data()[i] = weight > 0 && !(next * sign(orthant) > 0) ? 0 : next;
      }
    });
  });
}

/// What the search is told of the trial. \param smooth f there
PathTrial trial_of(BatchFunction& f, View x, View gradient, const LbfgsHistory::GradientPiece& pseudo, double smooth,
                   const LineStep& step) {
  double sums[3] = {};  // ⋄F·Δ, trapezoid of F, Σ λ|x|
  const float *const g = gradient.data(), *const next = step.trial.data(), *const next_g = step.trial_gradient.data();
  f.sum(sums, [&](Index begin, Index end, std::span<double> into) {
    for_each_piece(begin, end, [&](Index first, Index last) {
      float room[kPiece];
      const float* const steepest = pseudo(first, last, room);
      for_each_part(f.l1(), first, last, [&](Index from, Index to, double weight) {
        for (Index i = from; i < to; ++i) {
          const double before = x.data()[i], after = next[i], change = after - before;
          into[0] += steepest[i - first] * change;
          into[1] +=
              (static_cast<double>(g[i]) + next_g[i]) / 2 * change + weight * (std::abs(after) - std::abs(before));
          into[2] += weight * std::abs(after);
        }
      });
    });
  });
  return {.value = smooth + sums[2], .linear = sums[0], .mean = sums[1]};
}

}  // namespace

bool Lbfgs::step_orthantwise(const LbfgsDirection& direction, BatchFunction& f, View x) {
  const LbfgsHistory::GradientPiece pseudo = piece_of(f, x);
  history_.combine(direction, pairs(), pseudo, direction_.view());
  const double slope = project_direction(f, pseudo, direction_.view());
  if (!(slope < 0)) return false;
  Armijo search;
  search.start(progress_.value(), slope, first_step(direction));
  for (;;) {
    step_.length = search.step();
    project_step(f, x, direction_.view(), pseudo, static_cast<float>(step_.length), step_.trial.view());
    const double smooth = progress_.evaluate(f, step_.trial.view(), step_.trial_gradient.view());
    const PathTrial trial = trial_of(f, x, gradient().view(), pseudo, smooth, step_);
    step_.value = trial.value;
    const LineAnswer answer = search.see(trial);
    if (answer != LineAnswer::evaluate) return answer == LineAnswer::accepted;
  }
}

}  // namespace unisono::optim
