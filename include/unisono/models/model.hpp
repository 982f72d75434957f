#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "unisono/data/batch.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::models {

/// Called when g[first, last) is final. Ranges come from the end of the vector to its start, without gaps.
using GradientReady = std::function<void(Index first, Index last)>;

/// A named figure of an evaluation, e.g. {"accuracy", 0.91}.
struct Metric {
  std::string name;
  double value = 0;
  bool larger_is_better = false;
};

/// θ and the running statistics of batch normalisation, which are no parameters but part of the model. In the memory of
/// the backend that the model computes with.
struct ModelState {
  MutableView parameters;  ///< [layout().size()]
  MutableView statistics;  ///< [statistics_layout().size()]
};

/// A row of `unisono info`'s table.
struct LayerSummary {
  std::string name, kind, output;  ///< output: "20×24×24"
  Index parameters = 0;
  double flops_per_example = 0;  ///< forward and backward
  Index activation_bytes = 0;    ///< for the batch that was asked for
};

/// A matrix in θ whose rows stand for things that have names: words, users, items. Row i is the sum of its parts' rows,
/// each `scale` times the `width` floats from offset + i · stride on.
struct VectorTable {
  struct Component {
    Index offset = 0, stride = 0;
    float scale = 1;
  };
  std::string name;  ///< "words": the dictionary's, too
  Index rows = 0, width = 0;
  std::vector<Component> parts = {};
};

/// What the numbers are that a model predicts of an example.
enum class Prediction {
  values,         ///< of targets, or of what a layer computes
  probabilities,  ///< of classes, or of independent yes-or-no questions
  margins         ///< of classes: the largest one decides; no probabilities
};

class InPlace;

/// Something with parameters, a loss and a gradient. Knows nothing of ranks.
class Model {
 public:
  virtual ~Model() = default;

  /// What it offers to train example by example on θ itself; null: nothing. Some models offer nothing else.
  virtual const InPlace* in_place() const { return nullptr; }
  /// \throws ConfigError where loss_and_gradient would: it names the strategies that can train the model
  virtual void require_gradient() const {}
  /// Whether it trains with the weights of examples; a batch of a model that does not must have none.
  virtual bool takes_weights() const { return false; }

  virtual const ParameterLayout& layout() const = 0;
  virtual const ParameterLayout& statistics_layout() const = 0;
  /// Whether the running statistics depend on this rank's examples alone, so that strategies must average them; false
  /// where all are summed over the ranks, which then hold the same bits.
  virtual bool statistics_are_local() const { return statistics_layout().size() > 0; }
  /// Overwrites the state with initial values: a function of the seed and the canonical position alone.
  virtual void initialise(std::uint64_t seed, ModelState state) const = 0;

  /// g (+)= scale · ∂(Σ w · loss)/∂θ over the batch, with the examples' weights w (1 where it has none), and Σ w · loss
  /// added to `sums`, whose other figures are not weighted. Collective where statistics are global; a
  /// batch may be empty: its gradient is zero, and `ready` is called all the same. The sums may be complete only after
  /// Backend::collect, which comes before they are read and before anything else is evaluated.
  /// \param gradient in the memory of θ; the unused floats between blocks must be zero, and stay so
  /// \param ready may be empty
  virtual void loss_and_gradient(const data::Batch& batch, float scale, ModelState state, MutableView gradient,
                                 kernels::Write write, const GradientReady& ready, kernels::LossSums& sums) = 0;
  /// What `loss_and_gradient` adds to `sums`, without the gradient: the losses of training, with weights, dropout and
  /// batch statistics. Running statistics stay as they are. A model that trains as it predicts needs no own function.
  virtual void loss(const data::Batch& batch, ModelState state, kernels::LossSums& sums) {
    evaluate(batch, state, sums);
  }
  /// The penalty that belongs to the model's loss, in full; `loss_and_gradient` adds B · scale of its gradient.
  virtual double penalty(View /*parameters*/) const { return 0; }
  /// Losses and hits of a batch, added to `sums`, which have them all on return; as in prediction, no dropout, running
  /// statistics, no weights. Never collective.
  virtual void evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) = 0;
  /// \param outputs [batch.size, output_size()] row-major, in plain memory: probabilities for classifiers, values for
  /// regressions
  virtual void predict(const data::Batch& batch, ModelState state, MutableView outputs) = 0;
  virtual Index output_size() const = 0;
  /// What `predict` gives. Classifiers of one's own that give probabilities say so here.
  virtual Prediction prediction() const { return Prediction::values; }
  /// From now on `predict` gives the outputs of a layer, in its canonical order, and output_size() their number.
  /// \param layer a name of `summary` \throws ConfigError with the names that there are, or where there are no layers
  virtual void predict_layer(const std::string& layer);

  /// What can be exported, and searched for neighbours, of these parameters.
  virtual std::vector<VectorTable> vectors(View) const { return {}; }

  /// The figures of sums that were added up over all ranks: loss, then accuracy, top-5, RMSE, MAE, R² as they apply.
  virtual std::vector<Metric> metrics(const kernels::LossSums& sums) const = 0;

  virtual std::vector<LayerSummary> summary(Index batch) const = 0;
  /// Sentences that a run says at its start, e.g. which batch statistics are in force.
  virtual std::vector<std::string> notes() const { return {}; }
  virtual double flops_per_example() const = 0;  ///< of a training step
  /// Activations, their gradients and scratch for a local batch.
  virtual Index workspace_bytes(Index batch) const = 0;
  /// What `evaluate` and `predict` need of it.
  virtual Index inference_workspace_bytes(Index batch) const { return workspace_bytes(batch); }
};

}  // namespace unisono::models
