// Truncated Newton in a trust region: each step lowers the quadratic model of f within a ball.
//     q(s) = ∇f·s + ½ s·∇²f s,   ‖s‖ ≤ Δ
//     conjugate gradients from s = 0 until ‖∇f + ∇²f s‖ ≤ ξ ‖∇f‖, or s leaves the ball: then to its surface (Steihaug)
//     ρ = (f(x + s) − f(x)) / q(s);   x ← x + s where ρ > η₀
//     Δ smaller where ρ is small, larger where it is large (newton_cg.cpp, adapt)
// Lin, Weng, Keerthi, "Trust region Newton method for large-scale logistic regression", JMLR 9, 2008; Steihaug, SIAM J.
// Numer. Anal. 20, 1983.
// Cost of an iteration: one evaluation, and a product with the Hessian for each step of conjugate gradients; two
// reductions for each product. Where the iteration before made more of these steps than a matrix costs products, ∇²f is
// formed as a matrix, and products are free. State: gradient; six vectors more while it works.
#include <algorithm>
#include <cassert>
#include <cmath>

#include "descent.hpp"
#include "unisono/optim/catalog.hpp"

namespace unisono::optim {
namespace {

constexpr double kForcing = 0.1;                                     // ξ
constexpr double kAccept = 1e-4, kPoor = 0.25, kGood = 0.75;         // η₀, η₁, η₂
constexpr double kShrinkMost = 0.25, kShrinkLeast = 0.5, kGrow = 4;  // σ₁, σ₂, σ₃
constexpr int kMostProducts = 250;   // of an iteration: later ones would be lost in rounding errors
constexpr int kMostStepTrials = 30;  // of steps, before one is accepted
constexpr double kNoise = 1e-7;      // of sums of fp32 losses, relative

struct NewtonSettings {
  BatchStopping stopping{};
};

/// A step of the inner iteration, and what the model says of it.
struct ModelStep {
  double slope = 0;       ///< ∇f·s
  double prediction = 0;  ///< q(s)
  double norm = 0;        ///< ‖s‖
};

class NewtonCg final : public BatchMethod {
 public:
  NewtonCg(const NewtonSettings& settings, Index size)
      : progress_(settings.stopping),
        s_(size),
        residual_(size),
        direction_(size),
        product_(size),
        trial_(size),
        trial_gradient_(size) {
    state_.push_back({"gradient", Buffer(size)});
  }

  BatchIteration iterate(BatchFunction& f, MutableView x) override;
  std::vector<OptimizerState>& state() override { return state_; }
  std::vector<double> scalars() const override;
  void restore(const std::vector<double>& scalars) override;

 private:
  void start(BatchFunction& f, View x);
  ModelStep solve(BatchFunction& f, View x);
  double describe_step(BatchFunction& f, ModelStep& step);
  void turn(double beta);
  std::pair<double, bool> length(BatchFunction& f, double square);
  bool try_step(BatchFunction& f, MutableView x, const ModelStep& step);
  void adapt(double change, const ModelStep& step);

  Buffer& gradient() { return state_.front().values; }

  std::vector<OptimizerState> state_;
  BatchProgress progress_;
  double radius_ = 0;         ///< Δ
  double gradient_norm_ = 0;  ///< ‖∇f(x)‖
  int inner_steps_ = 0;       ///< of conjugate gradients, in the last iteration
  Buffer s_, residual_, direction_, product_, trial_, trial_gradient_;
};

/// to += factor · v
void add_scaled(Buffer& to, double factor, const Buffer& v) {
  const auto a = static_cast<float>(factor);
  for (Index i = 0; i < to.size(); ++i) to.data()[i] += a * v.data()[i];
}

void NewtonCg::start(BatchFunction& f, View x) {
  require_no_l1(f, "newton_cg");
  progress_.start(f, x, gradient().view());
  gradient_norm_ = std::sqrt(f.dot(gradient().view(), gradient().view()));
  radius_ = gradient_norm_;
}

BatchIteration NewtonCg::iterate(BatchFunction& f, MutableView x) {
  progress_.begin();
  if (!progress_.has_started()) start(f, x);
  if (!progress_.ended() && inner_steps_ > f.hessian_cost()) progress_.form_hessian(f, x);
  inner_steps_ = 0;
  for (int trials = 0; !progress_.ended(); ++trials) {
    if (try_step(f, x, solve(f, x))) break;
    if (trials == kMostStepTrials) progress_.end(BatchEnd::no_decrease);
  }
  return progress_.iteration();
}

/// s: conjugate gradients for ∇²f s = −∇f, from 0.
ModelStep NewtonCg::solve(BatchFunction& f, View x) {
  ModelStep step;
  for (Index i = 0; i < s_.size(); ++i) {
    s_.data()[i] = 0;
    residual_.data()[i] = direction_.data()[i] = -gradient().data()[i];
  }
  double square = gradient_norm_ * gradient_norm_;  // ‖r‖²
  bool inside = true;
  for (int i = 0; i < kMostProducts && inside && std::sqrt(square) > kForcing * gradient_norm_; ++i) {
    progress_.multiply(f, x, direction_.view(), product_.view());
    ++inner_steps_;
    const auto [alpha, stays] = length(f, square);
    inside = stays;
    add_scaled(s_, alpha, direction_);
    add_scaled(residual_, -alpha, product_);
    const double old_square = std::exchange(square, describe_step(f, step));
    turn(square / old_square);
  }
  return step;
}

/// r·r; sets what the model says of s.
double NewtonCg::describe_step(BatchFunction& f, ModelStep& step) {
  const std::pair<View, View> products[] = {{residual_.view(), residual_.view()},
                                            {s_.view(), residual_.view()},
                                            {gradient().view(), s_.view()},
                                            {s_.view(), s_.view()}};
  double sums[4];
  f.dots(products, sums);
  step = {.slope = sums[2], .prediction = (sums[2] - sums[1]) / 2, .norm = std::sqrt(sums[3])};
  return sums[0];
}

/// d ← r + β d
void NewtonCg::turn(double beta) {
  const auto keep = static_cast<float>(beta);
  for (Index i = 0; i < s_.size(); ++i) {
    direction_.data()[i] = residual_.data()[i] + keep * direction_.data()[i];
  }
}

/// How far to go along d, and whether s + α d lies within the ball; if not, or if the model falls without end, α leads
/// to its surface.
std::pair<double, bool> NewtonCg::length(BatchFunction& f, double square) {
  const std::pair<View, View> products[] = {{direction_.view(), product_.view()},
                                            {s_.view(), s_.view()},
                                            {s_.view(), direction_.view()},
                                            {direction_.view(), direction_.view()}};
  double sums[4];
  f.dots(products, sums);
  const double curvature = sums[0], ss = sums[1], sd = sums[2], dd = sums[3];
  if (curvature > 0) {
    const double alpha = square / curvature;
    if (ss + alpha * (2 * sd + alpha * dd) <= radius_ * radius_) return {alpha, true};
  }
  const double room = std::max(0.0, radius_ * radius_ - ss), root = std::sqrt(sd * sd + dd * room);
  return {sd >= 0 ? room / (sd + root) : (root - sd) / dd, false};
}

/// Evaluates x + s. \return whether x moves there
bool NewtonCg::try_step(BatchFunction& f, MutableView x, const ModelStep& step) {
  for (Index i = 0; i < s_.size(); ++i) trial_.data()[i] = x.data()[i] + s_.data()[i];
  const double value = progress_.evaluate(f, trial_.view(), trial_gradient_.view());
  const std::pair<View, View> products[] = {{trial_gradient_.view(), s_.view()},
                                            {trial_gradient_.view(), trial_gradient_.view()}};
  double sums[2];
  f.dots(products, sums);
  double change = value - progress_.value();
  if (!std::isfinite(change) || !std::isfinite(sums[1])) {
    radius_ = kShrinkMost * std::min(radius_, step.norm);
    return false;
  }
  if (std::abs(change) <= kNoise * std::abs(value)) change = (step.slope + sums[0]) / 2;
  const bool moves = value != progress_.value() || sums[0] != step.slope;  // else x + s is x, as floats
  if (!moves) progress_.end(BatchEnd::no_decrease);
  adapt(change, step);
  if (!moves || !(change <= kAccept * step.prediction) || !(step.prediction < 0)) return false;
  std::ranges::copy(trial_.view(), x.begin());
  std::swap(gradient(), trial_gradient_);
  gradient_norm_ = std::sqrt(sums[1]);
  progress_.arrive(value, f.largest_magnitude(gradient().view()), step.norm);
  return true;
}

/// Section 3 of the paper; as LIBLINEAR does it.
void NewtonCg::adapt(double change, const ModelStep& step) {
  const double bend = change - step.slope;
  const double alpha = bend <= 0 ? kGrow : std::max(kShrinkMost, -0.5 * step.slope / bend);
  const double ratio = change / step.prediction;
  const double reach = alpha * step.norm;
  if (ratio < kAccept)
    radius_ = std::min(std::max(alpha, kShrinkMost) * step.norm, kShrinkLeast * radius_);
  else if (ratio < kPoor)
    radius_ = std::max(kShrinkMost * radius_, std::min(reach, kShrinkLeast * radius_));
  else if (ratio < kGood)
    radius_ = std::max(kShrinkMost * radius_, std::min(reach, kGrow * radius_));
  else
    radius_ = std::max(radius_, std::min(reach, kGrow * radius_));
}

std::vector<double> NewtonCg::scalars() const {
  std::vector<double> scalars = {radius_, gradient_norm_, static_cast<double>(inner_steps_)};
  progress_.save(scalars);
  return scalars;
}

void NewtonCg::restore(const std::vector<double>& scalars) {
  radius_ = scalars[0];
  gradient_norm_ = scalars[1];
  inner_steps_ = static_cast<int>(scalars[2]);
  progress_.restore(scalars.data() + 3);
}

std::vector<std::string> newton_cg_state_names(const OptimizerSettings&) { return {"gradient"}; }

void describe_newton_cg(OptimizerSettings& settings, ConfigVisitor& visitor) {
  settings.own.of<NewtonSettings>().stopping.describe(visitor);
}

std::unique_ptr<BatchMethod> make_newton_cg(const OptimizerSettings& settings, Index size) {
  return std::make_unique<NewtonCg>(settings.own.of<NewtonSettings>(), size);
}

}  // namespace

OptimizerKind newton_cg() {
  return {.name = "newton_cg",
          .meaning = "truncated Newton in a trust region, on the whole training set; for linear models",
          .describe = describe_newton_cg,
          .state = newton_cg_state_names,
          .make_batch = make_newton_cg,
          .traits = {.whole_batch = true, .needs_hessian = true, .temporaries = 6}};
}

}  // namespace unisono::optim
