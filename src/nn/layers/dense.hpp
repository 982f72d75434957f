#pragma once

#include <cstdint>
#include <memory>

#include "layers/catalog.hpp"

namespace unisono::nn {

/// What the first values of a layer's weights are drawn from.
struct InitialWeights {
  Initialiser initialiser = Initialiser::he_normal;
  double deviation = 0.01;  ///< of Initialiser::normal
  void describe(ConfigVisitor& visitor);
};

struct DenseSettings {
  std::int64_t units = 0;
  bool bias = true;
  InitialWeights weights = {};
};

std::unique_ptr<Layer> make_dense(const DenseSettings& settings, const Shape& in);

}  // namespace unisono::nn
