#include "descent.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "unisono/base/errors.hpp"
#include "unisono/optim/catalog.hpp"

namespace unisono::optim {
namespace {

/// So many iterations may pass without a smaller value or gradient, where every step is to lower the value, and where
/// values may rise.
constexpr std::int64_t kMostIdle = 20, kMostIdleNonmonotone = 100;

}  // namespace

void BatchStopping::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "gradient_tolerance",
                 .meaning = "ends when no element of the gradient is larger; 0: never",
                 .range = at_least(0)},
                gradient_tolerance);
  visitor.field({.name = "function_tolerance",
                 .meaning = "ends when an iteration has changed the loss by no more than this share of it; 0: never. "
                            "Losses are exact to about 1e-8",
                 .range = at_least(0).below(1)},
                function_tolerance);
  visitor.field({.name = "passes",
                 .meaning = "passes over the training set after which no iteration begins: evaluations of loss and "
                            "gradient, and products with the Hessian; 0: no limit",
                 .range = at_least(0)},
                passes);
}

void describe_line_search(ConfigVisitor& visitor, LineSearchKind& line_search, std::string_view meaning) {
  visitor.choice({.name = "line_search", .meaning = meaning}, line_search, kLineSearchKinds);
}

double BatchProgress::evaluate(BatchFunction& f, View x, MutableView gradient) {
  ++now_.evaluations;
  ++passes_;
  return f.value_and_gradient(x, gradient);
}

void BatchProgress::multiply(BatchFunction& f, View x, View v, MutableView product) {
  if (!f.hessian_times(x, v, product)) return;
  ++now_.products;
  ++passes_;
}

void BatchProgress::form_hessian(BatchFunction& f, View x) {
  ++now_.hessians;
  ++passes_;
  f.form_hessian(x);
}

void BatchProgress::start(double value, double magnitude, double smooth) {
  value_ = best_value_ = now_.value = value;
  magnitude_ = best_magnitude_ = now_.gradient_magnitude = magnitude;
  started_ = std::isfinite(value) && std::isfinite(smooth);
  if (!started_) return end(BatchEnd::not_finite);
  if (smooth == 0 && magnitude == 0) return end(BatchEnd::constant);
  if (magnitude <= stopping_.gradient_tolerance) end(BatchEnd::gradient);
}

void BatchProgress::start(BatchFunction& f, View x, MutableView gradient) {
  const double value = evaluate(f, x, gradient), magnitude = f.largest_magnitude(gradient);
  start(value, magnitude, magnitude);
}

void BatchProgress::arrive(double value, double magnitude, double step_length) {
  const double change = std::abs(value - value_);
  value_ = now_.value = value;
  magnitude_ = now_.gradient_magnitude = magnitude;
  now_.step_length = step_length;
  if (magnitude <= stopping_.gradient_tolerance) return end(BatchEnd::gradient);
  const double tolerance = stopping_.function_tolerance;
  if (tolerance > 0 && change <= tolerance * std::abs(value)) return end(BatchEnd::function);
  if (stopping_.passes > 0 && passes_ >= stopping_.passes) return end(BatchEnd::passes);
  if (has_stalled()) end(BatchEnd::stalled);
}

/// Where rounding errors are larger than what is left to gain, values and gradients only wander.
bool BatchProgress::has_stalled() {
  const bool better = value_ < best_value_ || magnitude_ < best_magnitude_;
  best_value_ = std::min(best_value_, value_);
  best_magnitude_ = std::min(best_magnitude_, magnitude_);
  idle_ = better ? 0 : idle_ + 1;
  return idle_ >= (nonmonotone_ ? kMostIdleNonmonotone : kMostIdle);
}

void BatchProgress::save(std::vector<double>& scalars) const {
  scalars.insert(scalars.end(), {started_ ? 1.0 : 0.0, value_, magnitude_, static_cast<double>(passes_), best_value_,
                                 best_magnitude_, static_cast<double>(idle_)});
}

void BatchProgress::restore(const double* scalars) {
  started_ = scalars[0] != 0;
  value_ = scalars[1];
  magnitude_ = scalars[2];
  passes_ = static_cast<std::int64_t>(scalars[3]);
  best_value_ = scalars[4];
  best_magnitude_ = scalars[5];
  idle_ = static_cast<std::int64_t>(scalars[6]);
}

std::unique_ptr<LineSearch> make_line_search(LineSearchKind kind, const LineConstants& constants) {
  if (kind == LineSearchKind::armijo) return std::make_unique<Armijo>(constants);
  return std::make_unique<MoreThuente>(constants);
}

bool search_along(LineSearch& search, BatchFunction& f, BatchProgress& progress, View x, View d, LineStep& step) {
  const float *const from = x.data(), *const along = d.data();
  float* const trial = step.trial.data();
  for (;;) {
    step.length = search.step();
    const auto alpha = static_cast<float>(step.length);
    for (Index i = 0; i < std::ssize(x); ++i) trial[i] = from[i] + alpha * along[i];
    step.value = progress.evaluate(f, step.trial.view(), step.trial_gradient.view());
    const double slope =
        std::isfinite(step.value) ? f.dot(step.trial_gradient.view(), d) : std::numeric_limits<double>::quiet_NaN();
    const LineAnswer answer = search.see(step.value, slope);
    if (answer != LineAnswer::evaluate) return answer == LineAnswer::accepted;
  }
}

void require_no_l1(const BatchFunction& f, std::string_view kind) {
  if (!f.has_l1()) return;
  throw ConfigError(fmt::format(
      "optimizer.kind = \"{}\" needs a differentiable penalty: set l1 = 0, or optimizer.kind = \"lbfgs\"", kind));
}

double dot_of(const float* a, const float* b, Index n) {
  constexpr Index kLanes = 8;
  double lanes[kLanes] = {};
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (Index lane = 0; lane < kLanes; ++lane) lanes[lane] += static_cast<double>(a[i + lane]) * b[i + lane];
  }
  double sum = 0;
  for (; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  for (const double lane : lanes) sum += lane;
  return sum;
}

double BatchFunction::dot(View a, View b) {
  const std::pair<View, View> pair{a, b};
  double result = 0;
  dots({&pair, 1}, {&result, 1});
  return result;
}

void BatchFunction::dots(std::span<const std::pair<View, View>> pairs, std::span<double> sums) {
  sum(sums, [&](Index first, Index last, std::span<double> into) {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      into[i] += dot_of(pairs[i].first.data() + first, pairs[i].second.data() + first, last - first);
    }
  });
}

std::unique_ptr<BatchMethod> make_batch_method(const OptimizerSettings& settings, Index size) {
  const OptimizerKind& kind = kind_of(settings);
  if (kind.make_batch != nullptr) return kind.make_batch(settings, size);
  throw ConfigError(fmt::format("optimizer.kind = \"{}\" is no method for the whole training set", settings.kind));
}

// Steepest descent, with the steps of Barzilai and Borwein for first trials.
//     d = −∇f,   x⁺ = x + α d,   s = x⁺ − x,   y = ∇f⁺ − ∇f
//     the next first trial is between the two solutions of  α⁻¹ s ≈ y:   long s·s / s·y,   short s·y / y·y
//         short where short < κ long; else long
// Barzilai, Borwein, IMA J. Numer. Anal. 8, 1988; the choice: Zhou, Gao, Dai, "Gradient methods with adaptive
// step-sizes", Comput. Optim. Appl. 35, 2006. Such steps raise f at times, and are good for it: line_search = "armijo"
// compares f with the largest of its last 10 values (Grippo, Lampariello, Lucidi 1986; Raydan, SIAM J. Optim. 7, 1997).
// "strong_wolfe" lowers f in each iteration, and needs many more of them.
// Cost of an iteration: an evaluation for each trial, most often one; two dot products in one reduction, and one for
// each trial. State: descent (−∇f); two vectors more while it works.

namespace {

constexpr std::size_t kValues = 10;
constexpr double kShort = 0.4;  // κ

struct DescentSettings {
  LineSearchKind line_search = LineSearchKind::armijo;
  BatchStopping stopping{};
};

class GradientDescent final : public BatchMethod {
 public:
  GradientDescent(const DescentSettings& settings, Index size)
      : nonmonotone_(settings.line_search == LineSearchKind::armijo),
        progress_(settings.stopping, nonmonotone_),
        step_(size) {
    state_.push_back({"descent", Buffer(size)});
  }

  BatchIteration iterate(BatchFunction& f, MutableView x) override;
  std::vector<OptimizerState>& state() override { return state_; }
  std::vector<double> scalars() const override;
  void restore(const std::vector<double>& scalars) override;

 private:
  void start(BatchFunction& f, View x);
  void forget();
  bool search(BatchFunction& f, View x);
  void take(BatchFunction& f, MutableView x);
  void set_first_step(double new_square, double product);

  Buffer& descent() { return state_.front().values; }

  bool nonmonotone_;
  std::vector<OptimizerState> state_;
  BatchProgress progress_;
  double square_ = 0;           ///< ‖∇f‖²
  double first_ = 0;            ///< the next first trial
  bool learnt_ = false;         ///< from the last step
  std::vector<double> values_;  ///< the last few, at most kValues
  LineStep step_;
};

void GradientDescent::start(BatchFunction& f, View x) {
  require_no_l1(f, "gradient_descent");
  progress_.start(f, x, descent().view());
  for (float& one : descent().view()) one = -one;
  square_ = f.dot(descent().view(), descent().view());
  values_ = {progress_.value()};
  forget();
}

void GradientDescent::forget() {
  first_ = std::min(1.0, 1 / std::sqrt(square_));
  learnt_ = false;
}

BatchIteration GradientDescent::iterate(BatchFunction& f, MutableView x) {
  progress_.begin();
  if (!progress_.has_started()) start(f, x);
  if (progress_.ended()) return progress_.iteration();
  bool found = search(f, x);
  if (!found && learnt_) {  // the last step may have been too short to learn from
    forget();
    found = search(f, x);
  }
  found ? take(f, x) : progress_.end(BatchEnd::no_decrease);
  return progress_.iteration();
}

bool GradientDescent::search(BatchFunction& f, View x) {
  if (nonmonotone_) {
    Armijo armijo;
    armijo.start(progress_.value(), -square_, first_, *std::ranges::max_element(values_));
    return search_along(armijo, f, progress_, x, descent().view(), step_);
  }
  MoreThuente wolfe;
  wolfe.start(progress_.value(), -square_, first_);
  return search_along(wolfe, f, progress_, x, descent().view(), step_);
}

void GradientDescent::take(BatchFunction& f, MutableView x) {
  const View g = step_.trial_gradient.view();
  const std::pair<View, View> products[] = {{g, g}, {g, descent().view()}};
  double sums[2];
  f.dots(products, sums);
  set_first_step(sums[0], sums[1]);
  std::ranges::copy(step_.trial.view(), x.begin());
  std::ranges::transform(g, descent().view().begin(), [](float one) { return -one; });
  square_ = sums[0];
  values_.push_back(step_.value);
  if (values_.size() > kValues) values_.erase(values_.begin());
  progress_.arrive(step_.value, f.largest_magnitude(descent().view()), step_.length);
}

/// From s = α d, y = g⁺ + d. \param new_square ‖g⁺‖² \param product g⁺·d
void GradientDescent::set_first_step(double new_square, double product) {
  const double curvature = (product + square_) / (step_.length * square_);  // s·y / s·s
  const double yy = new_square + 2 * product + square_;
  learnt_ = true;
  if (!(curvature > 0) || !(yy > 0)) {
    first_ = 10 * step_.length;
    return;
  }
  const double long_step = 1 / curvature, short_step = step_.length * (product + square_) / yy;
  first_ = short_step < kShort * long_step ? short_step : long_step;
}

std::vector<double> GradientDescent::scalars() const {
  std::vector<double> scalars = {square_, first_, learnt_ ? 1.0 : 0.0};
  progress_.save(scalars);
  scalars.insert(scalars.end(), values_.begin(), values_.end());
  return scalars;
}

void GradientDescent::restore(const std::vector<double>& scalars) {
  square_ = scalars[0];
  first_ = scalars[1];
  learnt_ = scalars[2] != 0;
  progress_.restore(scalars.data() + 3);
  values_.assign(scalars.begin() + 3 + static_cast<std::ptrdiff_t>(BatchProgress::kScalars), scalars.end());
}

std::vector<std::string> gradient_descent_state_names(const OptimizerSettings&) { return {"descent"}; }

void describe_gradient_descent(OptimizerSettings& settings, ConfigVisitor& visitor) {
  auto& descent = settings.own.of<DescentSettings>();
  describe_line_search(visitor, descent.line_search,
                       "how the length of a step is found; armijo lets the loss rise below the largest of its last 10 "
                       "values, and needs fewer passes");
  descent.stopping.describe(visitor);
}

}  // namespace

OptimizerKind gradient_descent() {
  return {.name = "gradient_descent",
          .meaning = "steepest descent with a line search, on the whole training set",
          .describe = describe_gradient_descent,
          .state = gradient_descent_state_names,
          .make_batch = make_method<GradientDescent, DescentSettings>,
          .traits = {.whole_batch = true, .temporaries = kLineStepVectors}};
}

}  // namespace unisono::optim
