#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono::nn {

/// One table of `[model] layers = [ … ]`. Which members count depends on `kind`.
struct LayerSettings {
  std::string kind;
  std::string name;                                                   ///< default: kind and number, "convolution1"
  std::int64_t units = 0;                                             ///< dense
  std::int64_t channels = 0;                                          ///< convolution
  std::vector<std::int64_t> kernel, stride, padding, dilation, size;  ///< one number or [height, width]
  std::int64_t groups = 1;
  bool bias = true;
  std::string initialiser = "he_normal";
  std::string statistics = "auto";  ///< batch_norm: auto, global, local
  double momentum = 0.1;            ///< batch_norm: of the running statistics
  double epsilon = 1e-5;
  double rate = 0.5;                            ///< dropout
  double slope = 0.01;                          ///< leaky_relu
  double alpha = 1;                             ///< elu
  std::vector<LayerSettings> layers, shortcut;  ///< residual: the branch, and what replaces the identity
  bool inside_residual = false;                 ///< the config offers no residual block inside another
  void describe(ConfigVisitor& visitor);
};

/// A network's part of `[model]`.
struct NetworkSettings {
  /// softmax_cross_entropy, sigmoid_cross_entropy, multiclass_hinge, mean_squared_error, mean_absolute_error, huber
  std::string loss = "softmax_cross_entropy";
  double label_smoothing = 0;
  std::vector<LayerSettings> layers;
  double delta = 1;  ///< huber
  void describe(ConfigVisitor& visitor);
};

}  // namespace unisono::nn
