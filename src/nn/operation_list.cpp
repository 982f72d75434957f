#include "unisono/nn/operation_list.hpp"

#include "graph.hpp"

namespace unisono::nn {
namespace {

template <typename Any>
bool is_any(const Operation& operation) {
  return std::holds_alternative<Any>(operation);
}
template <typename First, typename Second, typename... More>
bool is_any(const Operation& operation) {
  return is_any<First>(operation) || is_any<Second, More...>(operation);
}

/// In which form an operation takes its input. \param there the form that the input has
TensorForm input_form(const Operation& operation, TensorForm there) {
  if (is_any<DenseOperation>(operation)) return there == TensorForm::sequence ? there : TensorForm::row;
  const auto* const norm = std::get_if<LayerNormOperation>(&operation);
  const bool of_pixels = norm != nullptr && norm->spec.of_pixels;
  if (of_pixels || is_any<ConvolutionOperation, PoolOperation, GlobalMeanOperation, ChannelGateOperation>(operation)) {
    return TensorForm::image;
  }
  return there;
}

TensorForm output_form(const Operation& operation, TensorForm input) {
  if (is_any<EmbeddingOperation>(operation)) return TensorForm::sequence;
  if (is_any<GlobalMeanOperation, SequencePoolOperation>(operation)) return TensorForm::row;
  return input;
}

}  // namespace

std::vector<Index> OperationStep::element_shape() const {
  const kernels::Extent& extent = out.extent;
  if (form == TensorForm::image) return {extent.channels, extent.height, extent.width};
  return {extent.size()};
}

TensorForm OperationList::form(int tensor) const {
  if (tensor > 0) return steps[static_cast<std::size_t>(tensor) - 1].form;
  if (in.vocabulary > 0) return TensorForm::tokens;
  return in.is_row() ? TensorForm::row : TensorForm::image;
}

OperationList operations_of(const NetworkSettings& settings, const Shape& in, const kernels::Backend& backend) {
  const Graph graph = build_graph(settings, in);
  ParameterLayout parameters, statistics;
  OperationList list{.in = in, .steps = {}};
  for (const Node& node : graph.nodes) {
    node.layer->declare(node.name, backend, parameters, statistics);
    OperationStep step{.name = node.name,
                       .operation = node.layer->operation(),
                       .input = node.input,
                       .second = node.residual,
                       .out = node.layer->out()};
    step.input_form = input_form(step.operation, list.form(step.input));
    step.form = output_form(step.operation, step.input_form);
    list.steps.push_back(std::move(step));
  }
  return list;
}

}  // namespace unisono::nn
