// What descriptors must be like when they are finalized, and the graph that operations make.
#include <algorithm>
#include <numeric>
#include <set>

#include "simulated_cuda/cudnn.hpp"

namespace simulated {
namespace {

using Extents = std::vector<std::int64_t>;

/// Names of a convolution's attributes by its kind: input, second input, output, convolution, alpha, beta; and which of
/// the three tensors is x, w and y.
struct ConvolutionNames {
  Operation kind;
  int inputs[2], output, convolution, alpha, beta, x, w, y;
};
#define NAMES(P, a, b, c, x, w, y)                                                                  \
  {CUDNN_ATTR_OPERATION_CONVOLUTION_##P##_##a, CUDNN_ATTR_OPERATION_CONVOLUTION_##P##_##b},         \
      CUDNN_ATTR_OPERATION_CONVOLUTION_##P##_##c, CUDNN_ATTR_OPERATION_CONVOLUTION_##P##_CONV_DESC, \
      CUDNN_ATTR_OPERATION_CONVOLUTION_##P##_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_##P##_BETA,    \
      CUDNN_ATTR_OPERATION_CONVOLUTION_##P##_##x, CUDNN_ATTR_OPERATION_CONVOLUTION_##P##_##w,       \
      CUDNN_ATTR_OPERATION_CONVOLUTION_##P##_##y
ConvolutionNames names_of(const Descriptor& operation) {
  if (operation.kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) {
    return {Operation::forward, NAMES(FORWARD, X, W, Y, X, W, Y)};
  }
  if (operation.kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) {
    return {Operation::backward_data, NAMES(BWD_DATA, DY, W, DX, DX, W, DY)};
  }
  return {Operation::backward_filter, NAMES(BWD_FILTER, X, DY, DW, X, DW, DY)};
}
#undef NAMES

struct PointwiseNames {
  Operation kind;
  std::vector<int> inputs;
  int output;
};
PointwiseNames pointwise_of(const Descriptor& operation) {
  constexpr int x = CUDNN_ATTR_OPERATION_POINTWISE_XDESC;
  constexpr int y = CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
  constexpr int b = CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
  switch (operation.child(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR).enumerator(CUDNN_ATTR_POINTWISE_MODE)) {
    case CUDNN_POINTWISE_ADD:
      return {Operation::add, {x, b}, y};
    case CUDNN_POINTWISE_MUL:
      return {Operation::multiply, {x, b}, y};
    case CUDNN_POINTWISE_IDENTITY:
      return {Operation::identity, {x}, y};
    case CUDNN_POINTWISE_RELU_FWD:
      return {Operation::relu, {x}, y};
    case CUDNN_POINTWISE_RELU_BWD:
      return {
          Operation::relu_gradient, {x, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC}, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC};
    default:
      throw Refused{CUDNN_STATUS_NOT_SUPPORTED, "the pointwise mode is not simulated"};
  }
}

void demand_child(const Descriptor& parent, int name, cudnnBackendDescriptorType_t kind) {
  demand(parent.has(name), "an operation lacks a descriptor");
  const Descriptor& child = parent.child(name);
  if (child.kind != kind) throw Refused{CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a descriptor has the wrong kind"};
  demand(child.finalized, "a descriptor was not finalized when it was set");
}

void add_tensor(TensorGraph& graph, const Descriptor& descriptor) {
  const Tensor tensor = tensor_of(descriptor);
  const auto [found, fresh] = graph.tensors.emplace(tensor.id, tensor);
  demand(fresh || found->second == tensor, "two different tensors have the same unique id");
}

TensorOperation convolution_of(TensorGraph& graph, const Descriptor& operation) {
  const ConvolutionNames names = names_of(operation);
  const Descriptor& convolution = operation.child(names.convolution);
  TensorOperation result;
  result.kind = names.kind;
  for (const int input : names.inputs) {
    add_tensor(graph, operation.child(input));
    result.inputs.push_back(tensor_of(operation.child(input)).id);
  }
  add_tensor(graph, operation.child(names.output));
  result.output = tensor_of(operation.child(names.output)).id;
  result.alpha = operation.real(names.alpha, 1);
  result.beta = operation.real(names.beta, 0);
  for (std::size_t i = 0; i < 2; ++i) {
    result.before[i] = convolution.integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)[i];
    result.stride[i] = convolution.integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[i];
    result.dilation[i] = convolution.integers(CUDNN_ATTR_CONVOLUTION_DILATIONS)[i];
  }
  result.flipped = convolution.enumerator(CUDNN_ATTR_CONVOLUTION_CONV_MODE) == CUDNN_CONVOLUTION;
  return result;
}

TensorOperation pointwise_operation_of(TensorGraph& graph, const Descriptor& operation) {
  const PointwiseNames names = pointwise_of(operation);
  TensorOperation result;
  result.kind = names.kind;
  for (const int input : names.inputs) {
    add_tensor(graph, operation.child(input));
    result.inputs.push_back(tensor_of(operation.child(input)).id);
  }
  add_tensor(graph, operation.child(names.output));
  result.output = tensor_of(operation.child(names.output)).id;
  result.alpha1 = operation.real(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1);
  result.alpha2 = operation.real(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1);
  return result;
}

/// Brings the operations into an order in which inputs are written before they are read.
void sort(TensorGraph& graph) {
  std::set<std::int64_t> to_come;
  for (const auto& operation : graph.operations) {
    demand(to_come.insert(operation.output).second, "two operations write the same tensor");
  }
  for (const auto& operation : graph.operations) {
    for (const auto input : operation.inputs) {
      const bool known = to_come.count(input) != 0 || !graph.tensors.at(input).is_virtual;
      demand(known, "a virtual tensor is read and not written");
    }
  }
  std::vector<TensorOperation> sorted;
  while (!graph.operations.empty()) {
    const auto next = std::find_if(graph.operations.begin(), graph.operations.end(), [&](const auto& operation) {
      return std::none_of(operation.inputs.begin(), operation.inputs.end(),
                          [&](std::int64_t input) { return to_come.count(input) != 0; });
    });
    demand(next != graph.operations.end(), "the operations read each other's results in a circle");
    to_come.erase(next->output);
    sorted.push_back(*next);
    graph.operations.erase(next);
  }
  graph.operations = std::move(sorted);
}

}  // namespace

std::int64_t Tensor::size() const {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

std::size_t Tensor::bytes() const {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < extents.size(); ++i) last += (extents[i] - 1) * strides[i];
  return static_cast<std::size_t>(last + 1) * size_of(number);
}

Tensor tensor_of(const Descriptor& descriptor) {
  Tensor tensor;
  tensor.id = descriptor.integer(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  const int type = descriptor.enumerator(CUDNN_ATTR_TENSOR_DATA_TYPE);
  if (type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_BFLOAT16) {
    throw Refused{CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "tensors of float and bf16 are simulated"};
  }
  tensor.number = type == CUDNN_DATA_FLOAT ? Number::float32 : Number::bfloat16;
  tensor.extents = descriptor.integers(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor.strides = descriptor.integers(CUDNN_ATTR_TENSOR_STRIDES);
  tensor.alignment = descriptor.integer(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  tensor.is_virtual = descriptor.boolean(CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  return tensor;
}

void check_convolution(const Descriptor& operation) {
  const ConvolutionNames names = names_of(operation);
  for (const int name : {names.x, names.w, names.y}) demand_child(operation, name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  demand_child(operation, names.convolution, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const Descriptor& c = operation.child(names.convolution);
  const Extents x = tensor_of(operation.child(names.x)).extents;
  const Extents w = tensor_of(operation.child(names.w)).extents;
  const Extents y = tensor_of(operation.child(names.y)).extents;
  demand(x.size() == 4 && w.size() == 4 && y.size() == 4, "a convolution of two dimensions takes tensors of rank 4");
  demand(x[0] == y[0] && y[1] == w[0], "the extents of x, w and y do not fit");
  demand(x[1] % w[1] == 0 && w[0] % (x[1] / w[1]) == 0, "the channels do not make whole groups");
  for (std::size_t i = 0; i < 2; ++i) {
    const auto dilation = c.integers(CUDNN_ATTR_CONVOLUTION_DILATIONS)[i];
    const auto padded = x[2 + i] + c.integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)[i] +
                        c.integers(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)[i];
    const auto room = padded - ((w[2 + i] - 1) * dilation + 1);
    demand(room >= 0 && y[2 + i] == room / c.integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)[i] + 1,
           "the extents of y are not those of the convolution's result");
  }
}

void check_pointwise(const Descriptor& operation) {
  demand_child(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  const PointwiseNames names = pointwise_of(operation);
  std::size_t tensors = 0;
  for (const int name : {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                         CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC,
                         CUDNN_ATTR_OPERATION_POINTWISE_DXDESC}) {
    if (operation.has(name)) ++tensors;
  }
  demand_child(operation, names.output, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const Extents y = tensor_of(operation.child(names.output)).extents;
  Extents widest(y.size(), 1);
  for (const int name : names.inputs) {
    demand_child(operation, name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const Extents x = tensor_of(operation.child(name)).extents;
    demand(x.size() == y.size(), "the tensors of a pointwise operation differ in rank");
    for (std::size_t i = 0; i < x.size(); ++i) {
      demand(x[i] == y[i] || x[i] == 1, "an input of a pointwise operation cannot be spread over its output");
      widest[i] = std::max(widest[i], x[i]);
    }
  }
  demand(widest == y, "the output of a pointwise operation is wider than its inputs");
  demand(tensors == names.inputs.size() + 1, "the pointwise mode does not take all tensors that were set");
}

TensorGraph graph_of(const std::vector<DescriptorPointer>& operations) {
  TensorGraph graph;
  for (const auto& operation : operations) {
    const bool pointwise = operation->kind == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR;
    const bool convolution = operation->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR ||
                             operation->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR ||
                             operation->kind == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR;
    demand(pointwise || convolution, "an element of the graph is no operation that is simulated");
    graph.operations.push_back(pointwise ? pointwise_operation_of(graph, *operation)
                                         : convolution_of(graph, *operation));
  }
  sort(graph);
  return graph;
}

}  // namespace simulated
