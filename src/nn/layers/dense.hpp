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

/// \param cut what W is of a whole matrix: rows (axis 0), of which the layer has so many units, or columns (axis 1); it
/// applies to settings and inputs that are those of the part
std::unique_ptr<Layer> make_dense(const DenseSettings& settings, const Shape& in, const Cut& cut = {});

}  // namespace unisono::nn
