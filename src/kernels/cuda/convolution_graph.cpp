// The passes of a convolution as graphs of cuDNN's operations.
#include "cuda/convolution_graph.hpp"

namespace unisono::kernels::cuda {
namespace {

using Dimensions = std::array<std::int64_t, 4>;  // [N, C, H, W], or [O, I, KH, KW]

/// Channels are innermost.
Dimensions strides_of(const Dimensions& d) { return {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]}; }

/// The tensors of one convolution.
class Tensors {
 public:
  Tensors(const ConvolutionSpec& spec, Index batch, cudnnDataType_t type) : type_(type) {
    const Extent out = spec.out();
    x_ = {batch, spec.in.channels, spec.in.height, spec.in.width};
    w_ = {spec.channels, spec.in.channels / spec.groups, spec.kernel_height, spec.kernel_width};
    y_ = {batch, out.channels, out.height, out.width};
    b_ = {1, out.channels, 1, 1};
  }
  Descriptor x() const { return make(kX, x_, type_, false); }
  Descriptor w(cudnnDataType_t type) const { return make(kW, w_, type, false); }
  Descriptor y() const { return make(kY, y_, type_, false); }
  Descriptor bias() const { return make(kBias, b_, type_, false); }
  /// An intermediate result (virtual tensor) of y's shape.
  Descriptor between(std::int64_t name) const { return make(name, y_, CUDNN_DATA_FLOAT, true); }

 private:
  static Descriptor make(std::int64_t name, const Dimensions& dimensions, cudnnDataType_t type, bool is_virtual) {
    constexpr std::int64_t kAlignment = 16;
    const Dimensions strides = strides_of(dimensions);
    Descriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
        .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const std::int64_t>(dimensions))
        .set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const std::int64_t>(strides))
        .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, name)
        .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment)
        .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
    tensor.finalise();
    return tensor;
  }

  cudnnDataType_t type_;
  Dimensions x_{}, w_{}, y_{}, b_{};
};

Descriptor convolution_of(const ConvolutionSpec& spec) {
  const std::array<std::int64_t, 2> padding = {spec.padding_height, spec.padding_width},
                                    stride = {spec.stride_height, spec.stride_width},
                                    dilation = {spec.dilation_height, spec.dilation_width};
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span<const std::int64_t>(padding))
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span<const std::int64_t>(padding))
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span<const std::int64_t>(stride))
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span<const std::int64_t>(dilation));
  convolution.finalise();
  return convolution;
}

/// The attribute names of each kind of operation.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t x, w, y, convolution, alpha, beta;
};

OperationNames names_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
    case ConvolutionPass::forward_fused:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvolutionPass::data:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
}

Descriptor convolve(ConvolutionPass pass, const Descriptor& convolution, const Descriptor& x, const Descriptor& w,
                    const Descriptor& y) {
  const OperationNames names = names_of(pass);
  Descriptor operation(names.type);
  operation.set(names.convolution, convolution)
      .set(names.x, x)
      .set(names.w, w)
      .set(names.y, y)
      .set(names.alpha, CUDNN_TYPE_FLOAT, 1.0F)
      .set(names.beta, CUDNN_TYPE_FLOAT, 0.0F);
  operation.finalise();
  return operation;
}

/// y = mode(x), or mode(x, b).
Descriptor pointwise(cudnnPointwiseMode_t mode, const Descriptor& x, const Descriptor* b, const Descriptor& y) {
  Descriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  kind.finalise();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind).set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
  if (b != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
  operation.finalise();
  return operation;
}

std::vector<Descriptor> operations_of(ConvolutionPass pass, const ConvolutionSpec& spec, const Tensors& tensors,
                                      cudnnDataType_t weights) {
  const Descriptor convolution = convolution_of(spec), x = tensors.x(), w = tensors.w(weights), y = tensors.y();
  std::vector<Descriptor> operations;
  if (pass != ConvolutionPass::forward_fused) {
    operations.push_back(convolve(pass, convolution, x, w, y));
    return operations;
  }
  const bool relu = spec.activation == Activation::relu;
  const Descriptor product = tensors.between(kProduct), bias = tensors.bias();
  operations.push_back(convolve(pass, convolution, x, w, product));
  if (!relu) {
    operations.push_back(pointwise(CUDNN_POINTWISE_ADD, product, &bias, y));
    return operations;
  }
  const Descriptor sum = tensors.between(kSum);
  operations.push_back(pointwise(CUDNN_POINTWISE_ADD, product, &bias, sum));
  operations.push_back(pointwise(CUDNN_POINTWISE_RELU_FWD, sum, nullptr, y));
  return operations;
}

}  // namespace

std::string_view name_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return "forward";
    case ConvolutionPass::forward_fused:
      return "forward, fused";
    case ConvolutionPass::data:
      return "data gradient";
    case ConvolutionPass::weights:
    case ConvolutionPass::weights_small:
      return "weight gradient";
  }
  return "";
}

cudnnDataType_t result_of(ConvolutionPass pass, Precision precision) {
  return stores_halves(precision) && pass != ConvolutionPass::weights ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
}

Descriptor convolution_graph(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch, Precision precision,
                             cudnnHandle_t handle) {
  const cudnnDataType_t type = stores_halves(precision) ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  const cudnnDataType_t weights = pass == ConvolutionPass::weights ? result_of(pass, precision) : type;
  const std::vector<Descriptor> operations = operations_of(pass, spec, Tensors(spec, batch, type), weights);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& operation : operations) handles.push_back(operation.get());
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  if (handle != nullptr) graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            std::span<const cudnnBackendDescriptor_t>(handles));
  return graph;
}

}  // namespace unisono::kernels::cuda
