// unisono with one more kind of model: ridge regression, f(x) = w·x + b with a penalty on w.
//   loss of an example: (f(x) − t)² + λ‖w‖²
// Everything else, every strategy, optimizer, checkpoint and command, comes from the library.
#include <algorithm>
#include <cmath>

#include <unisono/base/errors.hpp>
#include <unisono/cli/application.hpp>

namespace {

using namespace unisono;

class Ridge final : public models::Model {
 public:
  Ridge(Index features, double penalty) : features_(features), penalty_(static_cast<float>(penalty)) {
    layout_.add({.name = "weight", .shape = {1, features}, .role = Role::weight});
    layout_.add({.name = "bias", .shape = {1}, .role = Role::bias});
  }

  const ParameterLayout& layout() const override { return layout_; }
  const ParameterLayout& statistics_layout() const override { return no_statistics_; }
  void initialise(std::uint64_t, models::ModelState state) const override {
    std::fill(state.parameters.begin(), state.parameters.end(), 0.0F);
  }

  // ∂/∂w = Σ 2 (f(x) − t) x + 2 λ w, ∂/∂b = Σ 2 (f(x) − t)
  void loss_and_gradient(const data::Batch& batch, float scale, models::ModelState state,
                         const models::GradientTarget& to, kernels::LossSums& sums) override {
    const MutableView gradient = to.gradient;
    if (to.write == kernels::Write::overwrite) std::fill(gradient.begin(), gradient.end(), 0.0F);
    const View w = part(View(state.parameters), layout_.block("weight"));
    const MutableView dw = part(gradient, layout_.block("weight")), db = part(gradient, layout_.block("bias"));
    for (Index i = 0; i < batch.size; ++i) {
      const View x = example(batch, i);
      const float slope = 2 * scale * add_loss(x, target(batch, i), state, sums);
      for (std::size_t j = 0; j < x.size(); ++j) dw[j] += slope * x[j] + 2 * scale * penalty_ * w[j];
      db[0] += slope;
    }
    if (to.ready) to.ready(0, layout_.size());
  }

  void evaluate(const data::Batch& batch, models::ModelState state, kernels::LossSums& sums) override {
    for (Index i = 0; i < batch.size; ++i) add_loss(example(batch, i), target(batch, i), state, sums);
  }

  void predict(const data::Batch& batch, models::ModelState state, MutableView outputs) override {
    for (Index i = 0; i < batch.size; ++i) outputs[static_cast<std::size_t>(i)] = value(example(batch, i), state);
  }
  Index output_size() const override { return 1; }

  std::vector<models::Metric> metrics(const kernels::LossSums& sums) const override {
    const auto n = static_cast<double>(std::max<std::int64_t>(1, sums.examples));
    return {{"loss", sums.loss / n, false}, {"rmse", std::sqrt(sums.squared_error / n), false}};
  }

  std::vector<models::LayerSummary> summary(Index) const override {
    return {{.name = "ridge",
             .kind = "ridge",
             .output = "1",
             .parameters = features_ + 1,
             .flops_per_example = flops_per_example()}};
  }
  double flops_per_example() const override { return 4.0 * static_cast<double>(features_); }
  Index workspace_bytes(Index) const override { return 0; }

 private:
  View example(const data::Batch& batch, Index i) const {
    return batch.features.subspan(static_cast<std::size_t>(i * features_), static_cast<std::size_t>(features_));
  }
  static float target(const data::Batch& batch, Index i) { return batch.targets[static_cast<std::size_t>(i)]; }

  float value(View x, models::ModelState state) const {
    const View w = part(View(state.parameters), layout_.block("weight"));
    float sum = part(View(state.parameters), layout_.block("bias"))[0];
    for (std::size_t j = 0; j < x.size(); ++j) sum += w[j] * x[j];
    return sum;
  }

  /// \return f(x) − t
  float add_loss(View x, float t, models::ModelState state, kernels::LossSums& sums) const {
    const float error = value(x, state) - t;
    double loss = error * error;
    for (const float w : part(View(state.parameters), layout_.block("weight"))) loss += penalty_ * w * w;
    sums.loss += loss;
    sums.squared_error += error * error;
    ++sums.examples;
    return error;
  }

  Index features_;
  float penalty_;
  ParameterLayout layout_, no_statistics_;
};

/// `[model] kind = "ridge"`
class RidgeKind final : public models::ModelKind {
 public:
  std::string_view name() const override { return "ridge"; }
  std::string_view meaning() const override { return "linear regression with a penalty on the weights"; }
  void describe(ConfigVisitor& visitor) override {
    visitor.field({.name = "penalty", .meaning = "λ of λ‖w‖²", .range = at_least(0)}, penalty_);
  }
  std::unique_ptr<models::Model> make(const models::ModelInputs& inputs, const models::ModelContext&) const override {
    if (inputs.target_size != 1) throw ConfigError("model.kind: a ridge regression needs data with one target");
    return std::make_unique<Ridge>(inputs.features.size(), penalty_);
  }

 private:
  double penalty_ = 0.01;
};

}  // namespace

int main(int argc, char** argv) {
  return unisono::cli::run(argc, argv, {[] { return std::make_shared<RidgeKind>(); }});
}
