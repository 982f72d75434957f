#pragma once

#include <cstdint>

#include "unisono/models/model.hpp"
#include "unisono/nn/loss.hpp"
#include "unisono/nn/network.hpp"

namespace unisono::models {

/// A model whose layers can be divided into consecutive pieces. A pipeline runs the pieces on different ranks.
class Staged {
 public:
  virtual ~Staged() = default;
  virtual const nn::Network& network() const = 0;
  virtual const nn::Loss& loss_function() const = 0;
  virtual std::uint64_t mask_seed() const = 0;  ///< seed of dropout masks
};

/// Tells a reader what a model predicts. \param outputs of the model's last layer, for a batch, in the backend's order
void read_predictions(kernels::Backend& backend, const Staged& model, const data::Batch& batch, View outputs,
                      PredictionReader& reader);

}  // namespace unisono::models
