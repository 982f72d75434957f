#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/data/batch.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/kernels/step_kernels.hpp"
#include "unisono/tensor/gradient_ready.hpp"
#include "unisono/tensor/holding.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::nn {
struct LayerSeconds;
}

namespace unisono::models {

/// Told during the backward pass when g[first, last) is final. Ranges come from the end of the vector to its start,
/// without gaps.
using unisono::GradientReady;

/// Where the gradient of a batch goes.
struct GradientTarget {
  MutableView gradient;
  kernels::Write write = kernels::Write::overwrite;
  GradientReady ready = {};  ///< who is told which ranges of the gradient are final; nobody: it is not asked for
  bool complete = true;      ///< whether no later batch's gradient is added to it
  /// Makes the steps of Model::steps_at_once, of which g is not stored then; null: all of g is stored.
  const kernels::StepAtOnce* step = nullptr;
};

/// A named figure of an evaluation, e.g. {"accuracy", 0.91}.
struct Metric {
  std::string name;
  double value = 0;
  bool larger_is_better = false;
  bool shown = true;  ///< whether it is on the lines of a run; false: it is only recorded
};

/// A metric that models may have.
struct MetricKind {
  std::string_view name;
  bool larger_is_better;
  bool usual = true;  ///< whether it is shown where nobody asks for it
};
inline constexpr MetricKind kMetricKinds[] = {{"loss", false},
                                              {"perplexity", false},
                                              {"bits_per_byte", false},
                                              {"accuracy", true},
                                              {"subset_accuracy", true},
                                              {"top5_accuracy", true},
                                              {"auc", true},
                                              {"average_precision", true, false},
                                              {"balanced_accuracy", true, false},
                                              {"precision", true, false},
                                              {"recall", true, false},
                                              {"f1", true, false},
                                              {"precision_macro", true, false},
                                              {"recall_macro", true, false},
                                              {"f1_macro", true, false},
                                              {"f1_micro", true, false},
                                              {"log_loss", false, false},
                                              {"brier_score", false, false},
                                              {"expected_calibration_error", false, false},
                                              {"rmse", false},
                                              {"mae", false},
                                              {"r2", true}};
/// Whether a name, as of a number in a file, is that of a metric.
bool is_metric(std::string_view name);
/// Whether a metric is shown where nobody asks for it.
bool is_usual(std::string_view name);
/// Whether somebody who writes `text` means a metric, by its name or by another one (roc_auc for auc).
bool means_metric(std::string_view text);
/// A metric with its kind's properties. \throws std::logic_error where there is no metric of this name
Metric metric_of(std::string_view name, double value);
/// The metric that is meant by its name or another one (f1_macro for the f1 of more than two classes); null: none.
const Metric* find_metric(const std::vector<Metric>& metrics, std::string_view name);

/// θ and the running statistics of batch normalisation, which belong to the model but are not parameters. Both lie in
/// the memory of the model's backend.
struct ModelState {
  MutableView parameters;  ///< [layout().size()]
  MutableView statistics;  ///< [statistics_layout().size()]
};

/// What a rank holds of a model's state.
struct HeldModel {
  const Holding& parameters;
  const Holding& statistics;
};

/// A row of `unisono info`'s table.
struct LayerSummary {
  std::string name, kind, output;  ///< `output` is a shape: "20×24×24"
  Index parameters = 0;
  double flops_per_example = 0;  ///< of the forward and backward pass
  Index activation_bytes = 0;    ///< bytes of activations for the batch size that was asked for
};

/// A matrix of vectors in θ, one row for each named thing: a word, user or item. Row i is the sum over `parts` of scale
/// · θ[offset + i · stride, … + width).
struct VectorTable {
  struct Component {
    Index offset = 0, stride = 0;
    float scale = 1;
  };
  std::string name;  ///< name of the matrix, and of the dictionary's table: "words"
  Index rows = 0, width = 0;
  std::vector<Component> parts = {};
};

/// What the outputs of `Model::predict` mean.
enum class Prediction {
  values,         ///< predicted targets, or the outputs of a layer
  probabilities,  ///< of classes that exclude each other, or of independent yes-or-no labels
  margins         ///< scores of classes, of which the largest decides; not probabilities
};

/// Is told what a model predicts of the examples that it evaluates.
class PredictionReader {
 public:
  virtual ~PredictionReader() = default;
  /// Whether the reader needs what `Model::predict` gives. If not, models may tell it the outputs from which
  /// predictions follow: the largest of them decides, too, or of a single one whether it is above 0.
  virtual bool wants_predictions() const { return true; }
  /// Told the predictions of a batch.
  /// \param rows [B, output_size()] as `Model::predict` gives them
  /// \param answers [B] class numbers, or [B, T] targets
  /// \param scores [B] of two classes: numbers that order the examples as the second class's outputs do, with fewer
  /// ties; or empty
  virtual void read(View rows, View answers, View scores) = 0;
};

/// A batch's class numbers, targets or ratings. \return [B, width]; empty where the batch has none
std::vector<float> answers_of(const data::Batch& batch);

class Alternating;
class Convex;
class InPlace;
class Staged;

/// A function with parameters θ, a loss and a gradient. It knows nothing about ranks.
class Model {
 public:
  virtual ~Model() = default;

  /// The model's interface for in-place updates; null if it has none. Some models have no other way of training.
  virtual const InPlace* in_place() const { return nullptr; }
  /// The model's interface for pipelines; null where it cannot be divided into pieces.
  virtual const Staged* staged() const { return nullptr; }
  /// The model's interface for methods that use second derivatives; null if it has none.
  virtual Convex* convex() { return nullptr; }
  /// The model's interface for alternating least squares; null if it has none.
  virtual const Alternating* alternating() const { return nullptr; }
  /// Checks that loss_and_gradient works. \throws ConfigError if not, naming the strategies that can train the model
  virtual void require_gradient() const {}
  /// Checks that an example's training loss is a function of θ and of the example alone. \throws ConfigError naming
  /// what is random or depends on other examples
  virtual void require_deterministic() const {}
  /// Whether the model takes weights of examples in training. If not, its batches must have none.
  virtual bool takes_weights() const { return false; }

  /// The layout of θ.
  virtual const ParameterLayout& layout() const = 0;
  /// The layout of the running statistics.
  virtual const ParameterLayout& statistics_layout() const = 0;
  /// Whether the running statistics depend only on this rank's examples, so that strategies must average them. False
  /// where batch statistics are summed over the ranks, which then hold the same bits.
  virtual bool statistics_are_local() const { return statistics_layout().size() > 0; }
  /// How few examples a training batch may have.
  virtual data::LeastExamples least_examples() const { return {}; }
  /// Overwrites the state with initial values, which are a function of the seed and of each value's canonical position
  /// only.
  virtual void initialise(std::uint64_t seed, ModelState state) const = 0;

  /// Fills what a rank holds of the model's vectors with the values that `initialise` gives. Models that every rank
  /// always holds as a whole do not implement it. \param state laid out as `held` says
  virtual void initialise_held(std::uint64_t seed, const HeldModel& held, ModelState state) const;

  /// g (+)= scale · ∂(Σ w · loss)/∂θ over the batch, with the examples' weights w (1 if the batch has none), and adds Σ
  /// w · loss to `sums`, whose other figures are not weighted. Collective where batch statistics are global. A batch
  /// may be empty: its gradient is zero, and `ready` is called as usual. The sums may be incomplete until
  /// Backend::collect; call it before reading them and before evaluating anything else.
  /// \param gradient in the same memory as θ; the unused floats between blocks must be zero, and stay zero
  /// \param write whether to overwrite g or to add to it
  /// \param ready may be empty
  virtual void loss_and_gradient(const data::Batch& batch, float scale, ModelState state, const GradientTarget& target,
                                 kernels::LossSums& sums) = 0;
  /// The ranges of θ whose steps loss_and_gradient makes at once where GradientTarget::step is given, ascending.
  virtual std::vector<FloatRange> steps_at_once() const { return {}; }
  /// The model's own penalty R(θ), e.g. from its l2. `loss_and_gradient` adds B · scale · ∇R to g.
  virtual double penalty(View /*parameters*/) const { return 0; }
  /// Adds losses and hits of a batch to `sums`, which are complete on return. As in `predict`: running statistics, no
  /// dropout, no weights. Never collective.
  virtual void evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) = 0;
  /// Evaluates a batch as `evaluate`, and tells `reader` what the model predicts. The default evaluates and predicts
  /// one after the other.
  virtual void evaluate_predictions(const data::Batch& batch, ModelState state, kernels::LossSums& sums,
                                    PredictionReader& reader);
  /// Predicts the examples of a batch.
  /// \param outputs [batch.size, output_size()] row-major, in plain memory: probabilities for classifiers, values for
  /// regressions
  virtual void predict(const data::Batch& batch, ModelState state, MutableView outputs) = 0;
  /// Values of an example's prediction.
  virtual Index output_size() const = 0;
  /// What the outputs of `predict` mean. Classifiers must override it.
  virtual Prediction prediction() const { return Prediction::values; }
  /// From now on `predict` returns the outputs of layer `layer`, in canonical order, and output_size() is their number.
  /// \param layer a name of `summary` \throws ConfigError naming the layers, for an unknown one or a model without
  /// layers
  virtual void predict_layer(const std::string& layer);

  /// The tables of vectors in θ, for `unisono export` and `unisono neighbors`.
  virtual std::vector<VectorTable> vectors(View) const { return {}; }

  /// The metrics that follow from sums over all ranks: loss first, then accuracy, top-5, RMSE, MAE, R² as they apply.
  virtual std::vector<Metric> metrics(const kernels::LossSums& sums) const = 0;

  /// One row for each layer. \param batch the batch size for which activations are counted
  virtual std::vector<LayerSummary> summary(Index batch) const = 0;
  /// Sentences for the log at the start of a run, e.g. whether batch statistics are global or local.
  virtual std::vector<std::string> notes() const { return {}; }
  /// Adds each layer's seconds in training to these vectors, which have an element for each node of a network's graph;
  /// null: no more. Models without layers do nothing.
  virtual void time_layers(nn::LayerSeconds* /*seconds*/) {}
  virtual double flops_per_example() const = 0;  ///< flops of an example in training: forward and backward
  /// Bytes of activations, their gradients and scratch for a batch of this size on a rank, in training.
  virtual Index workspace_bytes(Index batch) const = 0;
  /// Bytes of activations and scratch for a batch of this size on a rank, in `evaluate` and `predict`.
  virtual Index inference_workspace_bytes(Index batch) const { return workspace_bytes(batch); }
};

}  // namespace unisono::models
