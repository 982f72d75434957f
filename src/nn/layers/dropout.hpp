#pragma once

#include <memory>

#include "layers/catalog.hpp"

namespace unisono::nn {

/// While training y = mask ⊙ x / (1 − rate), else y = x. The mask depends on seed, epoch, example and element alone, so
/// that it is the same however the batch is cut. Srivastava et al., JMLR 2014.
class Dropout final : public Layer {
 public:
  Dropout(double rate, std::uint32_t number, const Shape& in)
      : Layer(in), rate_(static_cast<float>(rate)), number_(number) {}

  LayerTraits traits() const override { return {.in_place = true, .gradient_in_place = true}; }
  void forward(const Pass& pass, const ForwardViews& views) const override;
  void backward(const Pass& pass, const BackwardViews& views) const override;

 private:
  void mask(const Pass& pass, View from, MutableView to) const;

  float rate_;
  std::uint32_t number_;
};

void describe_dropout(LayerSettings& settings, ConfigVisitor& visitor);
std::unique_ptr<Layer> make_dropout(const LayerSettings& settings, const Shape& in, const LayerContext& context);

}  // namespace unisono::nn
