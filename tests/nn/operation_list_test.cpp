// What layers say that they compute, and in which form other programs store what is between them.
#include "unisono/nn/operation_list.hpp"

#include <catch2/catch.hpp>

#include "layers.hpp"
#include "reference_backend.hpp"

namespace unisono::nn {
namespace {

OperationList operations(const std::vector<LayerSettings>& layers, const Shape& in) {
  return operations_of({.layers = layers}, in, *kernels::make_cpu_backend(1));
}

std::vector<TensorForm> forms(const OperationList& list) {
  std::vector<TensorForm> forms;
  for (const OperationStep& step : list.steps) forms.push_back(step.form);
  return forms;
}

TEST_CASE("each layer is an operation of its own, with the names of its parameters", "[operations]") {
  const OperationList list = operations(
      {convolution(4, {3}), layer("batch_norm"), layer("relu"), dense(5, "bias = false")}, {.extent = {2, 6, 6}});
  REQUIRE(list.steps.size() == 4);
  const auto& product = std::get<ConvolutionOperation>(list.steps[0].operation);
  CHECK((product.weight == "convolution1.weight" && product.bias == "convolution1.bias"));
  CHECK(product.spec.activation == kernels::Activation::none);  // nothing is fused
  CHECK(std::get<BatchNormOperation>(list.steps[1].operation).variance == "batch_norm1.variance");
  CHECK(std::get<ActivationOperation>(list.steps[2].operation).activation.kind == kernels::Activation::relu);
  const auto& last = std::get<DenseOperation>(list.steps[3].operation);
  CHECK((last.weight == "dense1.weight" && last.bias.empty()));
}

TEST_CASE("images become rows where a layer takes rows", "[operations]") {
  const OperationList list =
      operations({convolution(4, {3}), residual({layer("relu")}), layer("global_average_pool"), dense(5)}, {{2, 6, 6}});
  CHECK(list.form(0) == TensorForm::image);
  CHECK(forms(list) ==
        std::vector{TensorForm::image, TensorForm::image, TensorForm::image, TensorForm::row, TensorForm::row});
  const OperationList flat = operations({dense(5), layer("tanh")}, {{2, 6, 6}});
  CHECK(flat.steps[0].input_form == TensorForm::row);
  CHECK(forms(flat) == std::vector{TensorForm::row, TensorForm::row});
}

TEST_CASE("a residual block's addition has two inputs", "[operations]") {
  const OperationList list = operations({dense(3), residual({dense(3)})}, {{3}});
  REQUIRE(std::holds_alternative<AdditionOperation>(list.steps[2].operation));
  CHECK((list.steps[2].input == 2 && list.steps[2].second == 1));
}

TEST_CASE("tied weights are one block", "[operations]") {
  const OperationList list = operations({layer("embedding", "units = 4"), layer("unembedding", "tied = true")},
                                        {.extent = {1}, .rows = 5, .vocabulary = 7});
  CHECK(list.form(0) == TensorForm::tokens);
  CHECK(forms(list) == std::vector{TensorForm::sequence, TensorForm::sequence});
  const auto& embedding = std::get<EmbeddingOperation>(list.steps[0].operation);
  CHECK(std::get<UnembeddingOperation>(list.steps[1].operation).weight == embedding.weight);
}

}  // namespace
}  // namespace unisono::nn
