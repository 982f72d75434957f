#include <algorithm>
#include <cmath>

#include "conjugate_gradient.hpp"
#include "descent.hpp"
#include "unisono/optim/catalog.hpp"

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

}  // namespace

OptimizerKind newton_cg() {
  return {.name = "newton_cg",
          .meaning = "truncated Newton in a trust region, on the whole training set; for linear models",
          .describe = describe_newton_cg,
          .state = newton_cg_state_names,
          .make_batch = make_method<NewtonCg, NewtonSettings>,
          .traits = {.whole_batch = true, .needs_hessian = true, .temporaries = 6}};
}

// Nonlinear conjugate gradients, with one evaluation for most steps.
//     d⁺ = −g̃ + β d,    β = g̃·h / d·h
// g̃ is the gradient at the minimum along d. A search that finds it takes two evaluations or three. Instead, the search
// ends at the first x where the strong Wolfe conditions hold, and what remains is made up for later:
//     h = ∇²f d, as the difference of the gradients around the step tells it
//     c = −∇f·d / d·h             what remains along d from x to the minimum
//     g̃ = ∇f + c h                the gradient there, for quadratic f
//     p = c d + α d⁺,             α a little less than the usual distance of the minimum (of the last ten directions)
//     x⁺ = x + τ p,               τ from a line search that tries 1 first
// Where the search ends with τ ≠ 1, p takes the place of d⁺. An exact search has c = 0, and then this is the classical
// method. Because g̃·d = 0, the formulas for β of Polak, Ribière (1969) and of Hager, Zhang (SIAM J. Optim. 16, 2005)
// are that of Hestenes, Stiefel (1952) above, and differ in their bounds:
//     polak_ribiere  β ≥ 0                   Gilbert, Nocedal, SIAM J. Optim. 2, 1992
//     hager_zhang    β ≥ 0.4 ∇f·d / ‖d‖²     Hager, Zhang, SIAM J. Optim. 23, 2013
// Corrections along the last direction in the next search: Dixon, J. Optim. Theory Appl. 15, 1975.
// d⁺ = −∇f at the start, where the curvature d·h is not positive, where p is no descent, and where the search fails.
// Cost of an iteration: an evaluation for each trial, most often one; six dot products in one reduction, and one for
// each trial. State: gradient, direction, curvature (h); three vectors more while it works.

namespace {

constexpr double kPrudence = 0.85;    // of the usual distance
constexpr double kSteps = 10;         // that it is a mean of
constexpr double kNegligible = 1e-8;  // of ‖g̃‖² in ‖∇f‖²
constexpr double kFarthest = 20;      // what may remain of a step, relative to what was made

class ConjugateGradient final : public BatchMethod {
 public:
  ConjugateGradient(const ConjugateSettings& settings, Index size, std::unique_ptr<LineSearch> search)
      : beta_(settings.beta), progress_(settings.stopping), path_(size), step_(size), search_(std::move(search)) {
    for (const char* name : {"gradient", "direction", "curvature"}) state_.push_back({name, Buffer(size)});
  }

  BatchIteration iterate(BatchFunction& f, MutableView x) override;
  std::vector<OptimizerState>& state() override { return state_; }
  std::vector<double> scalars() const override;
  void restore(const std::vector<double>& scalars) override;

 private:
  void start(BatchFunction& f, View x);
  double turn();
  double go_on();
  double restart();
  double beta_of(double product) const;
  bool search(BatchFunction& f, View x, double slope);
  void take(BatchFunction& f, MutableView x);
  void learn_curvature(BatchFunction& f, bool whole_step);
  void correct(bool whole_step);

  Buffer& gradient() { return state_[0].values; }
  Buffer& direction() { return state_[1].values; }  ///< d of the last step
  Buffer& curvature() { return state_[2].values; }  ///< h = ∇²f d

  ConjugateBeta beta_;
  std::vector<OptimizerState> state_;
  BatchProgress progress_;
  bool steepest_ = true;                                        ///< there is no d: the next one is −∇f
  bool turns_ = true;                                           ///< p has a part of the new d
  double rest_ = 0;                                             ///< c
  double usual_ = 0;                                            ///< mean of the last few log α*
  double steps_ = 0;                                            ///< that the mean knows
  double length_ = 0;                                           ///< α of the step that is being made
  double gg_ = 0, gd_ = 0, gh_ = 0, dh_ = 0, hh_ = 0, dd_ = 0;  ///< dot products of ∇f, d, h
  Buffer path_;                                                 ///< p
  LineStep step_;
  std::unique_ptr<LineSearch> search_;
};

void ConjugateGradient::start(BatchFunction& f, View x) {
  require_no_l1(f, "conjugate_gradient");
  progress_.start(f, x, gradient().view());
  gg_ = f.dot(gradient().view(), gradient().view());
  steepest_ = true;
  steps_ = dh_ = 0;
}

BatchIteration ConjugateGradient::iterate(BatchFunction& f, MutableView x) {
  progress_.begin();
  if (!progress_.has_started()) start(f, x);
  if (progress_.ended()) return progress_.iteration();
  const double slope = steepest_ ? 0 : turn();
  const bool falls = slope < 0;
  bool found = search(f, x, falls ? slope : restart());
  if (!found && falls) found = search(f, x, restart());
  found ? take(f, x) : progress_.end(BatchEnd::no_decrease);
  return progress_.iteration();
}

/// d ← −∇f, p = α d. \return ∇f·p
double ConjugateGradient::restart() {
  rest_ = 0;
  turns_ = true;
  length_ = dh_ > 0 ? dd_ / dh_ : std::min(1.0, 1 / std::sqrt(gg_));
  const auto alpha = static_cast<float>(length_);
  for (Index i = 0; i < path_.size(); ++i) {
    direction().data()[i] = -gradient().data()[i];
    path_.data()[i] = alpha * direction().data()[i];
  }
  return -length_ * gg_;
}

/// d ← −g̃ + β d, p = c d_old + α d; p = c d where nothing but rounding errors is left of g̃. \return ∇f·p:
/// not negative where p is of no use, and d is to be −∇f
double ConjugateGradient::turn() {
  turns_ = gg_ + rest_ * (2 * gh_ + rest_ * hh_) > kNegligible * gg_;
  if (!turns_) return go_on();
  const double beta = beta_of(gh_ + rest_ * hh_);
  length_ = kPrudence * std::exp(usual_);
  const double slope = rest_ * gd_ + length_ * (beta * gd_ - gg_ - rest_ * gh_);
  if (!(slope < 0)) return slope;
  const auto keep = static_cast<float>(beta), rest = static_cast<float>(rest_), alpha = static_cast<float>(length_);
  const float *const g = gradient().data(), *const h = curvature().data();
  for (Index i = 0; i < path_.size(); ++i) {
    float& d = direction().data()[i];
    const float next = keep * d - g[i] - rest * h[i];
    path_.data()[i] = rest * d + alpha * next;
    d = next;
  }
  return slope;
}

/// p = c d. \return ∇f·p
double ConjugateGradient::go_on() {
  const auto rest = static_cast<float>(rest_);
  std::ranges::transform(direction().view(), path_.view().begin(), [rest](float d) { return rest * d; });
  return rest_ * gd_;
}

/// \param product g̃·h
double ConjugateGradient::beta_of(double product) const {
  return std::max(product / dh_, beta_ == ConjugateBeta::polak_ribiere ? 0.0 : 0.4 * gd_ / dd_);
}

bool ConjugateGradient::search(BatchFunction& f, View x, double slope) {
  search_->start(progress_.value(), slope, 1);
  return search_along(*search_, f, progress_, x, path_.view(), step_);
}

/// x ← x + τ p, and what is learnt of the curvature.
void ConjugateGradient::take(BatchFunction& f, MutableView x) {
  std::ranges::copy(step_.trial.view(), x.begin());
  learn_curvature(f, turns_ && step_.length == 1);
  progress_.arrive(step_.value, f.largest_magnitude(gradient().view()), step_.length);
}

/// h and the dot products; of p, where the step was not p as a whole.
void ConjugateGradient::learn_curvature(BatchFunction& f, bool whole_step) {
  if (!whole_step) std::swap(direction(), path_);
  const double scale = 1 / (whole_step ? length_ : step_.length), rest = whole_step ? rest_ : 0;
  float *const g = gradient().data(), *const h = curvature().data();
  const float* const next = step_.trial_gradient.data();
  for (Index i = 0; i < gradient().size(); ++i) {
    const double change = static_cast<double>(next[i]) - g[i] - (rest != 0 ? rest * h[i] : 0);
    h[i] = static_cast<float>(scale * change);
    g[i] = next[i];
  }
  const View gs = gradient().view(), d = direction().view(), hs = curvature().view();
  const std::pair<View, View> products[] = {{gs, gs}, {gs, d}, {gs, hs}, {d, hs}, {hs, hs}, {d, d}};
  double sums[6];
  f.dots(products, sums);
  gg_ = sums[0], gd_ = sums[1], gh_ = sums[2], dh_ = sums[3], hh_ = sums[4], dd_ = sums[5];
  correct(whole_step);
}

/// c, and the usual distance.
void ConjugateGradient::correct(bool whole_step) {
  const double moved = whole_step ? length_ : step_.length;
  steepest_ = !(dh_ > 0);
  if (steepest_) return;
  rest_ = std::clamp(-gd_ / dh_, -0.9 * moved, kFarthest * moved);
  if (!turns_) return;
  const double distance = whole_step ? moved + rest_ : (moved + rest_) * length_;
  steps_ = std::min(steps_ + 1, kSteps);
  usual_ += (std::log(distance) - usual_) / steps_;
}

std::vector<double> ConjugateGradient::scalars() const {
  std::vector<double> scalars = {steepest_ ? 1.0 : 0.0, rest_, usual_, steps_, gg_, gd_, gh_, dh_, hh_, dd_};
  progress_.save(scalars);
  return scalars;
}

void ConjugateGradient::restore(const std::vector<double>& scalars) {
  steepest_ = scalars[0] != 0;
  rest_ = scalars[1], usual_ = scalars[2], steps_ = scalars[3];
  gg_ = scalars[4], gd_ = scalars[5], gh_ = scalars[6], dh_ = scalars[7], hh_ = scalars[8], dd_ = scalars[9];
  progress_.restore(scalars.data() + 10);
}

std::vector<std::string> conjugate_gradient_state_names(const OptimizerSettings&) {
  return {"gradient", "direction", "curvature"};
}

void describe_conjugate_gradient(OptimizerSettings& settings, ConfigVisitor& visitor) {
  auto& conjugate = settings.own.of<ConjugateSettings>();
  visitor.choice({.name = "beta", .meaning = "how much of the last direction the next one has"}, conjugate.beta,
                 kConjugateBetas);
  describe_line_search(visitor, conjugate.line_search);
  visitor.require(
      "line_search", conjugate.line_search == LineSearchKind::strong_wolfe,
      "conjugate gradients need line_search = \"strong_wolfe\": after a backtracking step the next direction "
      "may not be one of descent");
  conjugate.stopping.describe(visitor);
}

std::unique_ptr<BatchMethod> make_conjugate_gradient(const OptimizerSettings& settings, Index size) {
  return make_conjugate_gradient(settings.own.of<ConjugateSettings>(), size,
                                 make_line_search(LineSearchKind::strong_wolfe));
}

}  // namespace

std::unique_ptr<BatchMethod> make_conjugate_gradient(const ConjugateSettings& settings, Index size,
                                                     std::unique_ptr<LineSearch> search) {
  return std::make_unique<ConjugateGradient>(settings, size, std::move(search));
}

OptimizerKind conjugate_gradient() {
  return {.name = "conjugate_gradient",
          .meaning = "nonlinear conjugate gradients on the whole training set",
          .describe = describe_conjugate_gradient,
          .state = conjugate_gradient_state_names,
          .make_batch = make_conjugate_gradient,
          .traits = {.whole_batch = true, .temporaries = 1 + kLineStepVectors}};
}

}  // namespace unisono::optim
