#pragma once

#include <cstdint>
#include <vector>

#include "unisono/models/model.hpp"
#include "unisono/nn/loss.hpp"
#include "unisono/nn/network.hpp"
#include "unisono/nn/operation_list.hpp"

namespace unisono::models {

/// A model whose layers can be divided into consecutive pieces. A pipeline runs the pieces on different ranks.
class Staged {
 public:
  virtual ~Staged() = default;
  virtual const nn::Network& network() const = 0;
  virtual const nn::Loss& loss_function() const = 0;
  /// What the layers compute, for exports.
  virtual nn::OperationList operations() const = 0;
  virtual std::uint64_t mask_seed() const = 0;  ///< seed of dropout masks
  /// What the head of a language model is given for a batch. Adds the bytes of the batch's labels to `sums`.
  /// \param scale of the gradient of an example's mean loss over its tokens
  virtual nn::LossTerms loss_terms(const data::Batch& batch, float scale, kernels::LossSums& sums) const = 0;
};

/// The inputs of a network for a batch.
Inputs inputs_of(const data::Batch& batch);

/// The labels or targets of a batch.
nn::Targets targets_of(const data::Batch& batch);

/// Numbers of the rows of a batch of sequences; see nn::Pass::row_numbers.
void number_rows(const data::Batch& batch, std::vector<std::uint64_t>& numbers);

/// Tells a reader what a model predicts. \param outputs of the model's last layer, for a batch, in the backend's order
void read_predictions(kernels::Backend& backend, const Staged& model, const data::Batch& batch, View outputs,
                      PredictionReader& reader);

}  // namespace unisono::models
