#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/kernels/in_place.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/models/in_place.hpp"

namespace unisono::models {

/// y = x · w + b on sparse rows or on tables: logistic regression, linear support vector machines, least squares,
/// softmax regression.
///   Objective: mean of ℓ(z, y) over the examples + l1 Σ|w| + l2/2 Σ w²; the bias bears no penalty.
///   In place, an example shrinks only the weights that it has features of, by n/n_j as much (see LinearStep).
///   Averaged SGD: Polyak & Juditsky, SIAM J. Control Optim. 30(4), 1992.
class LinearModel final : public Model, public InPlace {
 public:
  /// \throws ConfigError where the loss does not fit the data
  LinearModel(const LinearSettings& settings, const ModelInputs& inputs, const ModelContext& context);

  const InPlace* in_place() const override { return this; }
  void require_gradient() const override;
  bool takes_weights() const override { return true; }
  const ParameterLayout& layout() const override { return layout_; }
  const ParameterLayout& statistics_layout() const override { return statistics_; }
  void initialise(std::uint64_t seed, ModelState state) const override;

  void loss_and_gradient(const data::Batch& batch, float scale, ModelState state, MutableView gradient,
                         kernels::Write write, const GradientReady& ready, kernels::LossSums& sums) override;
  void loss(const data::Batch& batch, ModelState state, kernels::LossSums& sums) override;
  double penalty(View parameters) const override;
  void evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) override;
  void predict(const data::Batch& batch, ModelState state, MutableView outputs) override;
  Index output_size() const override { return loss_ == Kind::squared ? 1 : classes_; }
  Prediction prediction() const override {
    return loss_ == Kind::squared ? Prediction::values
           : loss_ == Kind::hinge ? Prediction::margins
                                  : Prediction::probabilities;
  }

  std::unique_ptr<Scratch> make_scratch() const override;
  void update_in_place(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step, Scratch& scratch,
                       kernels::LossSums& sums) const override;
  void mark_rows(const data::Batch& batch, data::ExampleRange range, Scratch& scratch,
                 TouchedRows& touched) const override;
  std::vector<RowSpace> row_spaces() const override;
  /// "features", and "bias": of averaged SGD the means.
  std::vector<VectorTable> vectors(View parameters) const override;
  RowMerging usual_merge() const override { return RowMerging::mean; }

  std::vector<Metric> metrics(const kernels::LossSums& sums) const override;
  std::vector<LayerSummary> summary(Index batch) const override;
  double flops_per_example() const override;
  Index workspace_bytes(Index batch) const override;

 private:
  enum class Kind { logistic, hinge, squared, softmax };
  static Kind kind_of(LinearLoss loss, const ModelInputs& inputs);
  void declare();
  void prepare_penalties(const ModelContext& context);

  /// Examples [first, last) of a batch, whatever it is made of.
  struct ExampleSlice {
    const SparseRows* rows = nullptr;  ///< null: a table
    View values = {};                  ///< of a table: [count, features]
    View answers = {};                 ///< of all rows, or of these examples of a table
    View weights = {};                 ///< beside the answers; empty: all are 1
    Index first = 0, count = 0;
  };
  ExampleSlice part_of(const data::Batch& batch, data::ExampleRange range, std::vector<float>& answers) const;
  void update(const ExampleSlice& part, const InPlaceStep& step, std::int64_t examples_before,
              kernels::LossSums& sums) const;
  void mark(const ExampleSlice& part, TouchedRows& touched) const;
  ExampleSlice one_of(const ExampleSlice& part, Index i) const;
  template <typename Visit>
  void for_each_feature(const ExampleSlice& part, Visit visit) const;
  /// Meters an example and takes its locks, where these are wanted.
  std::optional<RowLocks::Guard> enter(const ExampleSlice& one, const InPlaceStep& step, RowLocks::Set& rows) const;
  void note_updates(MutableView parameters, std::int64_t updates) const;

  kernels::LinearStep linear_step(const InPlaceStep& step, std::int64_t examples_before) const;
  /// Where weights or their sums are in θ; −1: nowhere.
  struct Place {
    Index weights = -1, bias = -1;
  };
  kernels::LinearWeights margin_weights(Place at, MutableView parameters) const;
  kernels::SoftmaxWeights softmax_weights(Place at, MutableView parameters) const;
  /// z of every example of a batch. \return [B, 1] or [B, K]
  std::vector<float> margins(const data::Batch& batch, Place at, MutableView parameters) const;
  std::vector<float> scored(const data::Batch& batch, ModelState state, kernels::LossSums& sums) const;
  /// … by the weights, or where SGD is averaged by their mean.
  std::vector<float> mean_margins(const data::Batch& batch, MutableView parameters) const;
  /// w̄ = w + share · u (see LinearStep); 0 where nothing was averaged.
  float share_of_sums(View parameters) const;
  /// The answers of a batch, in the order of its examples.
  std::vector<float> answers_of(const data::Batch& batch) const;
  /// … and their weights; empty: all are 1.
  static std::vector<float> weights_of(const data::Batch& batch);
  /// Losses of margins, which become ∂ℓ/∂z where `gradient`.
  void score(View answers, std::vector<float>& margins, bool gradient, bool collect, kernels::LossSums& sums) const;
  /// The same with both multiplied by the examples' weights.
  void score_weighted(View answers, View weights, std::vector<float>& margins, kernels::LossSums& sums) const;
  void add_gradient(const data::Batch& batch, const std::vector<float>& dz, float scale, MutableView gradient) const;
  void add_penalty_gradient(float share, View parameters, MutableView gradient) const;
  Index outputs() const { return loss_ == Kind::softmax ? classes_ : 1; }
  kernels::MarginLoss margin_loss() const;
  bool penalised() const { return settings_.l1 > 0 || settings_.l2 > 0; }

  LinearSettings settings_;
  Kind loss_;
  double row_values_;  ///< of a row that are not 0
  Index features_, classes_;
  Index width_;  ///< of a row of weights: 1, or K rounded up
  std::unique_ptr<kernels::InPlaceKernels> kernels_;
  ParameterLayout layout_, statistics_;
  Place weights_, sums_;       ///< sums_: u of averaged SGD
  Index updates_ = -1;         ///< offset in θ of how many averaged SGD has made; -1: it is not averaged
  std::vector<float> spread_;  ///< s_j; empty: no penalty
};

/// The share of pairs of a positive and a negative example in which the positive one has the higher score; of equals,
/// half. Orders its arguments. NaN where one is empty or holds a NaN.
double area_under_roc(std::vector<float>& negative, std::vector<float>& positive);

}  // namespace unisono::models
