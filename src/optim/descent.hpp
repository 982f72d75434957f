#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "line_search.hpp"
#include "unisono/base/config.hpp"
#include "unisono/optim/batch_method.hpp"
#include "unisono/optim/optimizer.hpp"

namespace unisono::optim {

// Keys of the methods for the whole training set.

enum class LineSearchKind { strong_wolfe, armijo };

inline constexpr Named<LineSearchKind> kLineSearchKinds[] = {
    {LineSearchKind::strong_wolfe, "strong_wolfe",
     "Moré and Thuente's, until the slope is small, too (or Hager and Zhang's approximate conditions hold)"},
    {LineSearchKind::armijo, "armijo", "backtracking until the loss has fallen enough"}};

/// When a method ends.
struct BatchStopping {
  double gradient_tolerance = 1e-5;  ///< of max |∇f|
  double function_tolerance = 0;     ///< of the change of f over an iteration, relative to |f|; 0: off
  std::int64_t passes = 0;           ///< over the set, after which no iteration begins; 0: no limit
  void describe(ConfigVisitor& visitor);
};

void describe_line_search(ConfigVisitor& visitor, LineSearchKind& line_search,
                          std::string_view meaning = "how the length of a step is found");

/// The `make_batch` of a method's OptimizerKind.
template <typename Method, typename Settings>
std::unique_ptr<BatchMethod> make_method(const OptimizerSettings& settings, Index size) {
  return std::make_unique<Method>(settings.own.of<Settings>(), size);
}

/// Where a method stands, and what it has asked for: f and max |∇f| at x, and passes. Decides when to end.
class BatchProgress {
 public:
  /// \param nonmonotone values may rise
  explicit BatchProgress(const BatchStopping& stopping, bool nonmonotone = false)
      : stopping_(stopping), nonmonotone_(nonmonotone) {}

  /// Begins an iteration.
  void begin() { now_ = {.value = value_, .gradient_magnitude = magnitude_}; }
  bool has_started() const { return started_; }
  /// f(x) and ∇f(x), counted.
  double evaluate(BatchFunction& f, View x, MutableView gradient);
  void multiply(BatchFunction& f, View x, View v, MutableView product);
  void form_hessian(BatchFunction& f, View x);

  /// The first x: the end is set where nothing is to be done. \param magnitude max |∇f|; with penalties, of the
  /// subgradient of least norm \param smooth max |∇f| without them
  void start(double value, double magnitude, double smooth);
  /// The same where f is differentiable: gradient = ∇f(x), evaluated here.
  void start(BatchFunction& f, View x, MutableView gradient);
  /// The next x.
  void arrive(double value, double magnitude, double step_length);
  /// x stays.
  void end(BatchEnd end) { now_.end = end; }
  bool ended() const { return now_.end != BatchEnd::none; }
  /// What iterate returns.
  const BatchIteration& iteration() const { return now_; }

  double value() const { return value_; }
  double magnitude() const { return magnitude_; }

  bool is_at_start() const { return passes_ == 1; }

  static constexpr std::size_t kScalars = 7;
  void save(std::vector<double>& scalars) const;
  void restore(const double* scalars);

 private:
  bool has_stalled();

  BatchStopping stopping_;
  bool nonmonotone_;
  BatchIteration now_{};
  bool started_ = false;
  double value_ = 0, magnitude_ = 0;
  std::int64_t passes_ = 0;
  double best_value_ = 0, best_magnitude_ = 0;  ///< the smallest so far
  std::int64_t idle_ = 0;                       ///< iterations since one of them became smaller
};

/// A step x → x + α d of a method along lines.
struct LineStep {
  explicit LineStep(Index size) : trial(size), trial_gradient(size) {}
  Buffer trial;           ///< x + α d
  Buffer trial_gradient;  ///< ∇f(x + α d)
  double length = 0;      ///< α
  double value = 0;       ///< f(x + α d)
};
constexpr int kLineStepVectors = 2;

std::unique_ptr<LineSearch> make_line_search(LineSearchKind kind, const LineConstants& constants = {});

/// Searches along d. \return whether it has found a step: then all of `step` belongs to it
/// \param search has been started with f(x) and ∇f(x)·d
/// Each trial: one evaluation, one dot product.
bool search_along(LineSearch& search, BatchFunction& f, BatchProgress& progress, View x, View d, LineStep& step);

/// For methods along lines that need differentiable functions. \throws ConfigError where f has l1 penalties
void require_no_l1(const BatchFunction& f, std::string_view kind);

constexpr Index kPiece = 2048;  ///< floats: a few vectors' pieces stay in the first cache

/// Calls visit(first, last) for pieces of at most kPiece elements.
template <typename Visit>
void for_each_piece(Index first, Index last, const Visit& visit) {
  for (Index at = first; at < last; at += kPiece) visit(at, std::min(last, at + kPiece));
}

/// Σ a b over n floats, in double. The order of the sum depends on n alone.
double dot_of(const float* a, const float* b, Index n);

}  // namespace unisono::optim
