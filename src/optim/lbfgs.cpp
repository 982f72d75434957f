#include <algorithm>
#include <cmath>

#include "descent.hpp"
#include "lbfgs_history.hpp"
#include "unisono/optim/catalog.hpp"

// Limited-memory BFGS: steps along d = −H ∇f, where H is the inverse of the Hessian as the last m pairs know it.
//     s = x⁺ − x,  y = ∇f(x⁺) − ∇f(x),  ρ = 1/(s·y)
//     H⁺ = (I − ρ s yᵀ) H (I − ρ y sᵀ) + ρ s sᵀ,   H₀ = (s·y / y·y) I
//     x⁺ = x + α d,  α from a line search that tries 1 first
// Nocedal, Math. Comp. 35, 1980; Liu, Nocedal, Math. Programming 45, 1989. H g needs dot products alone, and then one
// linear combination of the pairs and g: Chen, Wang, Zhou, NIPS 2014 (LbfgsHistory).
// The first step is along −∇f. Where d is no descent, or the search along it finds no step, the pairs are forgotten,
// and −∇f is tried; if that fails as well, x is the result. Cost of an iteration: an evaluation for each trial, most
// often one; 6 m dot products in one reduction. The pairs are read twice, 16 m bytes a float of θ. State: gradient, s0
// …, y0 …; three vectors more while it works.
namespace unisono::optim {
namespace {

struct LbfgsSettings {
  std::int64_t history = 10;
  LineSearchKind line_search = LineSearchKind::strong_wolfe;
  BatchStopping stopping{};
};

/// L-BFGS; where f has l1 penalties, OWL-QN.
class Lbfgs final : public BatchMethod {
 public:
  Lbfgs(const LbfgsSettings& settings, Index size);

  BatchIteration iterate(BatchFunction& f, MutableView x) override;
  std::vector<OptimizerState>& state() override { return state_; }
  std::vector<double> scalars() const override;
  void restore(const std::vector<double>& scalars) override;

 private:
  void start(BatchFunction& f, View x);
  bool step_along(const LbfgsDirection& direction, BatchFunction& f, View x);
  void take(BatchFunction& f, MutableView x, double value);
  double first_step(const LbfgsDirection& direction) const;
  // OWL-QN
  void start_orthantwise(BatchFunction& f, View x);
  bool step_orthantwise(const LbfgsDirection& direction, BatchFunction& f, View x);
  double steepness(BatchFunction& f, View x);

  Buffer& gradient() { return state_.front().values; }
  std::span<OptimizerState> pairs() { return std::span(state_).subspan(1); }
  LbfgsHistory::GradientPiece piece_of(BatchFunction& f, View x);

  LbfgsSettings settings_;
  std::vector<OptimizerState> state_;  ///< gradient, s0 …, y0 …
  LbfgsHistory history_;
  BatchProgress progress_;
  Buffer direction_;  ///< d
  LineStep step_;
  std::unique_ptr<LineSearch> search_;
};

/// ⋄F by elements; all three arguments must outlive it.
LbfgsHistory::GradientPiece pseudo_gradient_of(const BatchFunction& f, View x, View gradient);

/// ‖α d‖ of the very first trial, of 0.2 to 1.5 that with the fewest passes on a9a; scipy's is 1.
constexpr double kFirstLength = 0.8;

}  // namespace

Lbfgs::Lbfgs(const LbfgsSettings& settings, Index size)
    : settings_(settings),
      history_(static_cast<int>(settings.history)),
      progress_(settings.stopping),
      direction_(size),
      step_(size),
      search_(make_line_search(settings.line_search)) {
  state_.push_back({"gradient", Buffer(size)});
  for (std::string& name : LbfgsHistory::names(static_cast<int>(settings.history))) {
    state_.push_back({std::move(name), Buffer(size)});
  }
}

BatchIteration Lbfgs::iterate(BatchFunction& f, MutableView x) {
  progress_.begin();
  const bool orthantwise = f.has_l1();
  if (!progress_.has_started()) orthantwise ? start_orthantwise(f, x) : start(f, x);
  if (progress_.ended()) return progress_.iteration();
  const auto step = orthantwise ? &Lbfgs::step_orthantwise : &Lbfgs::step_along;
  bool found = (this->*step)(history_.direction(), f, x);
  if (!found && history_.pairs() > 0) {
    history_.clear();
    found = (this->*step)(history_.steepest(), f, x);
  }
  found ? take(f, x, step_.value) : progress_.end(BatchEnd::no_decrease);
  return progress_.iteration();
}

/// The smooth gradient as it lies in memory.
LbfgsHistory::GradientPiece Lbfgs::piece_of(BatchFunction& f, View x) {
  if (f.has_l1()) return pseudo_gradient_of(f, x, gradient().view());
  return [g = gradient().data()](Index first, Index, float*) { return g + first; };
}

void Lbfgs::start(BatchFunction& f, View x) {
  progress_.start(f, x, gradient().view());
  if (!progress_.ended()) history_.restart(f, piece_of(f, x));
}

bool Lbfgs::step_along(const LbfgsDirection& direction, BatchFunction& f, View x) {
  if (!(direction.slope < 0)) return false;
  history_.combine(direction, pairs(), piece_of(f, x), direction_.view());
  search_->start(progress_.value(), direction.slope, first_step(direction));
  return search_along(*search_, f, progress_, x, direction_.view(), step_);
}

double Lbfgs::first_step(const LbfgsDirection& direction) const {
  if (history_.pairs() > 0) return 1;
  const double unit = 1 / std::sqrt(direction.square);
  return progress_.is_at_start() ? kFirstLength * unit : std::min(1.0, unit);
}

/// x ← x + α d, and the new pair.
void Lbfgs::take(BatchFunction& f, MutableView x, double value) {
  float *const trial = step_.trial.data(), *const trial_gradient = step_.trial_gradient.data();
  float* const g = gradient().data();
  const double before = progress_.magnitude();
  for (Index i = 0; i < std::ssize(x); ++i) {
    float& at = x[static_cast<std::size_t>(i)];
    const float s = trial[i] - at, y = trial_gradient[i] - g[i];
    at = std::exchange(trial[i], s);
    g[i] = std::exchange(trial_gradient[i], y);
  }
  history_.update(f, pairs(), step_.trial, step_.trial_gradient, piece_of(f, x), before);
  const double magnitude = f.has_l1() ? steepness(f, x) : f.largest_magnitude(gradient().view());
  progress_.arrive(value, magnitude, step_.length);
}

std::vector<double> Lbfgs::scalars() const {
  std::vector<double> scalars;
  progress_.save(scalars);
  history_.save(scalars);
  return scalars;
}

void Lbfgs::restore(const std::vector<double>& scalars) {
  progress_.restore(scalars.data());
  history_.restore(scalars.data() + BatchProgress::kScalars);
}

namespace {

std::vector<std::string> lbfgs_state_names(const OptimizerSettings& settings) {
  std::vector<std::string> names = LbfgsHistory::names(static_cast<int>(settings.own.of<LbfgsSettings>().history));
  names.insert(names.begin(), "gradient");
  return names;
}

void describe_lbfgs(OptimizerSettings& settings, ConfigVisitor& visitor) {
  auto& lbfgs = settings.own.of<LbfgsSettings>();
  visitor.field({.name = "history",
                 .meaning = "pairs of steps and changes of the gradient that are kept, each two vectors of θ's size",
                 .range = at_least(1).at_most(100)},
                lbfgs.history);
  describe_line_search(visitor, lbfgs.line_search);
  lbfgs.stopping.describe(visitor);
}

}  // namespace

OptimizerKind lbfgs() {
  return {.name = "lbfgs",
          .meaning = "limited-memory BFGS on the whole training set; OWL-QN where the model has l1 penalties",
          .describe = describe_lbfgs,
          .state = lbfgs_state_names,
          .make_batch = make_method<Lbfgs, LbfgsSettings>,
          .traits = {.whole_batch = true, .takes_l1 = true, .temporaries = 1 + kLineStepVectors}};
}

// Orthant-wise limited-memory quasi-Newton: L-BFGS for F(x) = f(x) + Σ λ_i |x_i|.
//     ⋄F_i = f'_i + λ_i sign(x_i), or where x_i = 0: f'_i shrunk towards 0 by λ_i     the subgradient of least norm
//     d = −H ⋄F, with d_i = 0 where d_i has not the sign of −⋄F_i                     H from the pairs of f alone
//     ξ_i = sign(x_i), or where x_i = 0: sign(−⋄F_i)                                  the orthant of the step
//     x(α) = x + α d, with 0 for elements that leave the orthant ξ
//     α: backtracking until F(x(α)) ≤ F(x) + δ ⋄F·(x(α) − x)
// Elements without a penalty are in no orthant: they are never set to 0, and their d is not changed.
// Andrew, Gao, "Scalable training of L1-regularized log-linear models", ICML 2007.
// Cost of an iteration: as L-BFGS; each trial needs one reduction of three numbers. No vector more.

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

LbfgsHistory::GradientPiece pseudo_gradient_of(const BatchFunction& f, View x, View gradient) {
  return [ranges = f.l1(), x = x.data(), g = gradient.data()](Index first, Index last, float* room) {
    for_each_part(ranges, first, last, [&](Index from, Index to, double weight) {
      for (Index i = from; i < to; ++i) room[i - first] = weight > 0 ? pseudo_gradient(x[i], g[i], weight) : g[i];
    });
    return static_cast<const float*>(room);
  };
}

}  // namespace

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
