#pragma once

#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/kernels/specs.hpp"

namespace unisono::nn {

/// One table of `[model] layers = [ … ]`: the settings that all layers have, and those of its kind.
struct LayerSettings {
  std::string kind;              ///< a name of layer_kinds()
  std::string name;              ///< default: kind and number, "convolution1"
  bool inside_residual = false;  ///< the config offers no residual block inside another
  OwnSettings own = {};
  void describe(ConfigVisitor& visitor);
};

/// The settings of a residual block.
struct ResidualSettings {
  std::vector<LayerSettings> layers, shortcut;  ///< the branch, and what replaces the identity
};

/// The loss functions of a network's outputs.
enum class LossKind {
  softmax_cross_entropy,
  sigmoid_cross_entropy,
  multiclass_hinge,
  mean_squared_error,
  mean_absolute_error,
  huber
};

inline constexpr Named<LossKind> kLossKinds[] = {
    {LossKind::softmax_cross_entropy, "softmax_cross_entropy",
     "−log of the predicted probability of the label, for mutually exclusive classes"},
    {LossKind::sigmoid_cross_entropy, "sigmoid_cross_entropy",
     "binary cross-entropy, averaged over independent outputs, for targets in [0, 1] or labels; for two "
     "classes, one output is enough: the probability of the second class"},
    {LossKind::multiclass_hinge, "multiclass_hinge",
     "max(0, 1 + the largest output of another class − the output of the label) (Crammer & Singer 2001)"},
    {LossKind::mean_squared_error, "mean_squared_error", "(y − t)², averaged over the outputs of an example"},
    {LossKind::mean_absolute_error, "mean_absolute_error", "|y − t|, averaged over the outputs of an example"},
    {LossKind::huber, "huber",
     "½ (y − t)² up to |y − t| = delta and linear beyond, averaged over the outputs of an example"}};

inline constexpr Named<kernels::Winograd> kWinogradTiles[] = {
    {kernels::Winograd::none, "none", "direct sums over the taps"},
    {kernels::Winograd::tiles_2x2, "2x2",
     "F(2×2, 3×3): 4/9 of the multiplications; errors are about those of direct sums"},
    {kernels::Winograd::tiles_4x4, "4x4",
     "F(4×4, 3×3): 1/4 of the multiplications; errors are some 5 times those of direct sums (Lavin & Gray 2016)"}};

/// A network's part of `[model]`.
struct NetworkSettings {
  LossKind loss = LossKind::softmax_cross_entropy;
  double label_smoothing = 0;
  std::vector<LayerSettings> layers;
  double delta = 1;  ///< huber
  kernels::Winograd winograd = kernels::Winograd::tiles_2x2;
  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::nn
