#pragma once

#include <vector>

#include "unisono/models/model.hpp"

namespace unisono::models {

/// When the parts of a gradient are final, as shares of the seconds of its forward and backward pass. A third is the
/// forward pass. The backward pass goes from the last layer to the first, and is as long in each as its flops say.
class GradientTimes {
 public:
  static constexpr double kForward = 1.0 / 3;

  /// \param layers in the order of their parameters
  explicit GradientTimes(const std::vector<LayerSummary>& layers);

  /// Of the layer with this parameter, counted in the order of the layers.
  double of(Index parameter) const;

 private:
  std::vector<Index> first_;   ///< parameter of each layer that has some
  std::vector<double> share_;  ///< when its gradient is final
};

}  // namespace unisono::models
