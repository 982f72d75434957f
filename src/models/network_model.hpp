#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unisono/models/factory.hpp"
#include "unisono/models/staged.hpp"
#include "unisono/nn/loss.hpp"
#include "unisono/nn/network.hpp"

namespace unisono::models {

/// A network and its loss as a model. Owns the workspace for one micro-batch in flight, as large as the largest batch
/// so far needed.
class NetworkModel final : public Model, public Staged {
 public:
  /// \throws ConfigError
  NetworkModel(const nn::NetworkSettings& settings, const ModelInputs& inputs, const ModelContext& context);

  const ParameterLayout& layout() const override { return network_.parameters(); }
  const ParameterLayout& statistics_layout() const override { return network_.statistics(); }
  const Staged* staged() const override { return this; }
  const nn::Network& network() const override { return network_; }
  const nn::Loss& loss_function() const override { return *loss_; }
  nn::OperationList operations() const override { return nn::operations_of(settings_, in_, context_.backend); }
  std::uint64_t mask_seed() const override { return context_.seed; }
  nn::LossTerms loss_terms(const data::Batch& batch, float scale, kernels::LossSums& sums) const override;
  void require_deterministic() const override { network_.require_deterministic(); }
  bool takes_weights() const override { return true; }
  bool statistics_are_local() const override { return network_.statistics_are_local(); }
  data::LeastExamples least_examples() const override {
    return {.together = network_.compares_examples(/*local=*/false) ? 2 : 1,
            .of_rank = network_.compares_examples(/*local=*/true) ? 2 : 1};
  }
  void initialise(std::uint64_t seed, ModelState state) const override;
  void initialise_held(std::uint64_t seed, const HeldModel& held, ModelState state) const override;

  std::vector<FloatRange> steps_at_once() const override { return network_.steps_at_once(); }
  void loss_and_gradient(const data::Batch& batch, float scale, ModelState state, const GradientTarget& target,
                         kernels::LossSums& sums) override;
  void evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) override;
  void evaluate_predictions(const data::Batch& batch, ModelState state, kernels::LossSums& sums,
                            PredictionReader& reader) override;
  void predict(const data::Batch& batch, ModelState state, MutableView outputs) override;
  Index output_size() const override {
    return layer_ ? layer_->out().rows * layer_->out().extent.size() : loss_->prediction_size();
  }
  Prediction prediction() const override;
  void predict_layer(const std::string& layer) override;

  std::vector<Metric> metrics(const kernels::LossSums& sums) const override;
  std::vector<LayerSummary> summary(Index batch) const override;
  std::vector<std::string> notes() const override;
  void time_layers(nn::LayerSeconds* seconds) override { layer_seconds_ = seconds; }
  double flops_per_example() const override;
  Index workspace_bytes(Index batch) const override;
  Index inference_workspace_bytes(Index batch) const override;

  /// Floats that are now allocated for activations and their gradients.
  Index workspace_size() const { return memory_.size(); }

 private:
  nn::Pass pass(const data::Batch& batch, ModelState state, bool training) const;
  bool collect_tied_gradient(const GradientTarget& target, nn::TiedWeights& tied);
  void evaluate_tokens(const data::Batch& batch, ModelState state, kernels::LossSums& sums);
  void add_token_metrics(const kernels::LossSums& sums, std::vector<Metric>& metrics) const;
  /// The workspace for a batch of this size; its previous contents are lost.
  nn::Workspace workspace(Index batch, bool training);
  nn::Workspace memory_for(const nn::WorkspacePlan& plan);
  bool gathers_moments(const data::Batch& batch) const;
  MutableView moments_of(Index micro_batch);
  void make_room_for_moments(Index micro_batches);
  void apply_moments(const nn::Pass& pass, Index micro_batches);
  View infer(const data::Batch& batch, ModelState state);

  nn::NetworkSettings settings_;
  nn::Shape in_;
  ModelContext context_;
  mutable LocalReducer alone_;  ///< for micro-batches of which no other rank has examples
  nn::Network network_;
  std::unique_ptr<nn::Network> layer_;  ///< the part up to the layer that `predict` returns; null: the whole network
  std::unique_ptr<nn::Loss> loss_;
  std::map<std::pair<Index, bool>, nn::WorkspacePlan> plans_;  ///< by (batch size, whether training)
  data::TokenBytes token_bytes_;                               ///< ModelInputs::token_bytes
  std::vector<std::uint64_t> row_numbers_;                     ///< of the batch of the last pass of training
  Buffer tied_gradient_;   ///< nn::TiedWeights::gradient, where a sum is over several batches
  bool collects_ = false;  ///< whether it holds parts of a sum that is not complete
  nn::LayerSeconds* layer_seconds_ = nullptr;
  Buffer memory_;
  Buffer moments_;  ///< batch statistics of the step's micro-batches, see gathers_moments; zero before the first one
};

}  // namespace unisono::models
