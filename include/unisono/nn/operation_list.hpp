#pragma once

#include <string>
#include <vector>

#include "unisono/nn/layer.hpp"
#include "unisono/nn/network.hpp"
#include "unisono/nn/operation.hpp"

namespace unisono::nn {

/// How other programs store a batch of N examples.
enum class TensorForm {
  tokens,   ///< [N, T] token numbers
  row,      ///< [N, C]; an image is flattened
  image,    ///< [N, C, H, W]
  sequence  ///< [N, T, C]
};

/// An operation and the tensors that it connects. Operation i writes tensor i + 1; tensor 0 is the network's input.
struct OperationStep {
  std::string name;  ///< of its layer: "residual1.convolution1"
  Operation operation;
  int input = 0;                            ///< tensor
  int second = -1;                          ///< second input; −1: none
  Shape out;                                ///< of an example's outputs
  TensorForm input_form = TensorForm::row;  ///< how the operation takes its input; its second one as `form` says
  TensorForm form = TensorForm::row;        ///< of the outputs

  /// The shape of an example's outputs in this form, or of a row of a sequence: [C, H, W] or [C].
  std::vector<Index> element_shape() const;
};

/// The operations of a network in the order in which they run, each by itself: nothing is fused.
struct OperationList {
  Shape in;
  std::vector<OperationStep> steps;

  const Shape& shape(int tensor) const { return tensor == 0 ? in : steps[static_cast<std::size_t>(tensor) - 1].out; }
  TensorForm form(int tensor) const;
};

/// The operations of a network. \param backend that the parameters are laid out for \throws ConfigError for layers that
/// do not fit together, as Network does
OperationList operations_of(const NetworkSettings& settings, const Shape& in, const kernels::Backend& backend);

}  // namespace unisono::nn
