#include "descent.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "unisono/base/errors.hpp"
#include "unisono/optim/batch_method.hpp"
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
                 .minimum = 0},
                gradient_tolerance);
  visitor.field({.name = "function_tolerance",
                 .meaning = "ends when an iteration has changed the loss by no more than this share of it; 0: never. "
                            "Losses are exact to about 1e-8",
                 .minimum = 0,
                 .maximum = 1,
                 .maximum_excluded = true},
                function_tolerance);
  visitor.field({.name = "passes",
                 .meaning = "passes over the training set after which no iteration begins: evaluations of loss and "
                            "gradient, and products with the Hessian; 0: no limit",
                 .minimum = 0},
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

}  // namespace unisono::optim
