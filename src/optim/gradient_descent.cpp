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
#include <array>
#include <cmath>

#include "descent.hpp"
#include "unisono/optim/catalog.hpp"

namespace unisono::optim {
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

std::unique_ptr<BatchMethod> make_gradient_descent(const OptimizerSettings& settings, Index size) {
  return std::make_unique<GradientDescent>(settings.own.of<DescentSettings>(), size);
}

}  // namespace

OptimizerKind gradient_descent() {
  return {.name = "gradient_descent",
          .meaning = "steepest descent with a line search, on the whole training set",
          .describe = describe_gradient_descent,
          .state = gradient_descent_state_names,
          .make_batch = make_gradient_descent,
          .traits = {.whole_batch = true, .temporaries = kLineStepVectors}};
}

}  // namespace unisono::optim
