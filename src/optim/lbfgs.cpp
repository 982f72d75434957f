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
#include "lbfgs.hpp"

#include <algorithm>
#include <cmath>

#include "unisono/optim/catalog.hpp"

namespace unisono::optim {
namespace {

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
  if (!progress_.ended()) orthantwise ? iterate_orthantwise(f, x) : iterate_smooth(f, x);
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

void Lbfgs::iterate_smooth(BatchFunction& f, MutableView x) {
  bool found = step_along(history_.direction(), f, x);
  if (!found && history_.pairs() > 0) {
    history_.clear();
    found = step_along(history_.steepest(), f, x);
  }
  if (!found) return progress_.end(BatchEnd::no_decrease);
  take(f, x, step_.value);
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
                 .minimum = 1,
                 .maximum = 100},
                lbfgs.history);
  describe_line_search(visitor, lbfgs.line_search);
  lbfgs.stopping.describe(visitor);
}

std::unique_ptr<BatchMethod> make_lbfgs(const OptimizerSettings& settings, Index size) {
  return std::make_unique<Lbfgs>(settings.own.of<LbfgsSettings>(), size);
}

}  // namespace

OptimizerKind lbfgs() {
  return {.name = "lbfgs",
          .meaning = "limited-memory BFGS on the whole training set; OWL-QN where the model has l1 penalties",
          .describe = describe_lbfgs,
          .state = lbfgs_state_names,
          .make_batch = make_lbfgs,
          .traits = {.whole_batch = true, .takes_l1 = true, .temporaries = 1 + kLineStepVectors}};
}

}  // namespace unisono::optim
