#include "cuda/convolutions.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cuda/descriptor.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

/// Names of tensors in a graph.
enum Tensor : std::int64_t { kX = 'x', kW = 'w', kY = 'y', kBias = 'b', kProduct = 'p', kSum = 's' };

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

/// How many descriptors an attribute holds; they are read into descriptors that were created for them.
std::int64_t count_of(const Descriptor& from, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) {
  std::int64_t count = 0;
  check(cudnn().cudnnBackendGetAttribute(from.get(), name, type, 0, &count, nullptr), "cudnnBackendGetAttribute");
  return count;
}

template <typename T>
bool has(const Descriptor& engine, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, T wanted) {
  std::vector<T> notes(static_cast<std::size_t>(count_of(engine, name, type)));
  if (notes.empty()) return false;
  std::int64_t count = 0;
  check(cudnn().cudnnBackendGetAttribute(engine.get(), name, type, static_cast<std::int64_t>(notes.size()), &count,
                                         notes.data()),
        "cudnnBackendGetAttribute");
  return std::find(notes.begin(), notes.end(), wanted) != notes.end();
}

Descriptor engine_of(const Descriptor& configuration) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  std::int64_t count = 0;
  check(cudnn().cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                         CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &handle),
        "cudnnBackendGetAttribute");
  return engine;
}

std::int64_t number_of(const Descriptor& engine) {
  std::int64_t number = 0, count = 0;
  check(cudnn().cudnnBackendGetAttribute(engine.get(), CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &count,
                                         &number),
        "cudnnBackendGetAttribute");
  return number;
}

bool is_compiled(const Descriptor& engine) {
  return has(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
             CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
}

std::string text_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return "forward pass";
    case ConvolutionPass::forward_fused:
      return "forward pass with bias and activation";
    case ConvolutionPass::data:
      return "gradient of inputs";
    case ConvolutionPass::weights:
      return "gradient of weights";
    case ConvolutionPass::weights_small:
      return "gradient of weights, converted";
  }
  return "";
}

std::string text_of(const ConvolutionSpec& spec, Index batch) {
  std::string text = fmt::format("{}×{}×{} to {} channels, {}×{}", spec.in.channels, spec.in.height, spec.in.width,
                                 spec.channels, spec.kernel_height, spec.kernel_width);
  if (spec.stride_height != 1 || spec.stride_width != 1) {
    text += fmt::format(", stride {}×{}", spec.stride_height, spec.stride_width);
  }
  if (spec.dilation_height != 1 || spec.dilation_width != 1) {
    text += fmt::format(", dilation {}×{}", spec.dilation_height, spec.dilation_width);
  }
  if (spec.groups != 1) text += fmt::format(", {} groups", spec.groups);
  return text + fmt::format(", batch {}", batch);
}

}  // namespace

Convolutions::Convolutions(Precision precision, Fallbacks& fallbacks) : precision_(precision), fallbacks_(fallbacks) {
  check(cudnn().cudnnCreate(&handle_), "cudnnCreate");
}

Convolutions::~Convolutions() {
  plans_.clear();
  cudnn().cudnnDestroy(handle_);
}

Convolutions::Plan& Convolutions::plan(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) {
  const Key key = {static_cast<Index>(pass),
                   batch,
                   spec.in.channels,
                   spec.in.height,
                   spec.in.width,
                   spec.channels,
                   spec.kernel_height,
                   spec.kernel_width,
                   spec.stride_height,
                   spec.stride_width,
                   spec.padding_height,
                   spec.padding_width,
                   spec.dilation_height,
                   spec.dilation_width,
                   spec.groups,
                   static_cast<Index>(spec.activation)};
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  Plan& made = plans_.emplace(key, make_plan(pass, spec, batch)).first->second;
  made.engine.pass = text_of(pass);
  made.engine.convolution = text_of(spec, batch);
  made.engine.workspace_bytes = made.workspace_bytes;
  if (made.engine.last_resort) note_last_resort(made.engine);
  return made;
}

void Convolutions::note_last_resort(const ConvolutionEngine& engine) {
  fallbacks_.note(Fallback::engine,
                  fmt::format("cuDNN recommends no engine for the {} of a convolution ({}, {}): engine {} is taken{}, "
                              "which it lists as a last resort",
                              engine.pass, engine.convolution, name_of(precision_), engine.engine,
                              engine.compiled ? ", compiled at run time" : ""));
}

bool Convolutions::can_fuse(const ConvolutionSpec& spec, Index batch) {
  if (can(ConvolutionPass::forward_fused, spec, batch)) return true;
  fallbacks_.note(
      Fallback::convolution,
      fmt::format("cuDNN has no kernel for a convolution ({}, {}) that includes the bias{}: another kernel "
                  "adds it",
                  text_of(spec, batch), name_of(precision_), spec.activation == Activation::relu ? " and ReLU" : ""));
  return false;
}

std::vector<ConvolutionEngine> Convolutions::engines() const {
  std::vector<ConvolutionEngine> found;
  for (const auto& [key, plan] : plans_) {
    if (plan.engine.times > 0) found.push_back(plan.engine);
  }
  return found;
}

Convolutions::Plan Convolutions::make_plan(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) const {
  const cudnnDataType_t type = stores_halves(precision_) ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  const std::vector<Descriptor> operations =
      operations_of(pass, spec, Tensors(spec, batch, type), pass == ConvolutionPass::weights ? CUDNN_DATA_FLOAT : type);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& operation : operations) handles.push_back(operation.get());

  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle_)
      .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
           std::span<const cudnnBackendDescriptor_t>(handles));
  if (graph.try_finalise() != CUDNN_STATUS_SUCCESS) return {};
  Plan plan = find_engine(graph, CUDNN_HEUR_MODE_A);
  if (plan.found) return plan;
  plan = find_engine(graph, CUDNN_HEUR_MODE_FALLBACK);
  plan.engine.last_resort = plan.found;
  return plan;
}

/// The first engine, best first, that is_welcome and for which a plan can be made.
Convolutions::Plan Convolutions::find_engine(const Descriptor& graph, cudnnBackendHeurMode_t mode) const {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (heuristics.try_finalise() != CUDNN_STATUS_SUCCESS) return {};
  std::int64_t count = count_of(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  std::vector<Descriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    handles.push_back(configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get());
  }
  if (count == 0) return {};
  check(cudnn().cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                         count, &count, handles.data()),
        "cudnnBackendGetAttribute");
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const Descriptor engine = engine_of(configurations[i]);
    if (!is_welcome(engine)) continue;
    auto execution = std::make_unique<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    execution->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle_)
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configurations[i]);
    if (execution->try_finalise() != CUDNN_STATUS_SUCCESS) continue;
    std::int64_t bytes = 0, one = 0;
    check(cudnn().cudnnBackendGetAttribute(execution->get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                           1, &one, &bytes),
          "cudnnBackendGetAttribute");
    return {.configuration = std::make_unique<Descriptor>(std::move(configurations[i])),
            .execution = std::move(execution),
            .workspace_bytes = static_cast<std::size_t>(bytes),
            .found = true,
            .engine = {.engine = number_of(engine), .compiled = is_compiled(engine)}};
  }
  return {};
}

bool Convolutions::is_welcome(const Descriptor& engine) const {
  const auto has_note = [&](cudnnBackendNumericalNote_t note) {
    return has(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, note);
  };
  if (has_note(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) || has_note(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) {
    return false;
  }
  if (stores_halves(precision_)) return true;
  // Tensor cores round floats to tf32; other such kernels round them to fp16, whose range is smaller.
  if (has_note(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
  return precision_ == Precision::tf32 || !has_note(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

void Convolutions::run(Queue& queue, ConvolutionPass pass, const ConvolutionSpec& spec, Index batch,
                       const ConvolutionMemory& memory, void* workspace) {
  Plan& plan = this->plan(pass, spec, batch);
  if (!plan.found) {
    throw DeviceError(
        "cuDNN has no kernel for a convolution of this shape and precision; change its groups, dilation "
        "or channels, set precision = \"bf16\", or device = \"cpu\"");
  }
  ++plan.engine.times;
  Signature signature;
  signature.add(&plan).add(memory.x).add(memory.w).add(memory.y).add(memory.b).add(workspace);
  const bool fused = pass == ConvolutionPass::forward_fused;
  queue.add(signature, [this, &plan, memory, workspace, fused](cudaStream_t stream) {
    std::vector<std::int64_t> names = {kX, kW, kY};
    std::vector<const void*> addresses = {memory.x, memory.w, memory.y};
    if (fused) {
      names.push_back(kBias);
      addresses.push_back(memory.b);
    }
    Descriptor variants(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    variants.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const std::int64_t>(names))
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span<const void* const>(addresses))
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
    variants.finalise();
    check(cudnn().cudnnSetStream(handle_, stream), "cudnnSetStream");
    check(cudnn().cudnnBackendExecute(handle_, plan.execution->get(), variants.get()), "cudnnBackendExecute");
  });
}

}  // namespace unisono::kernels::cuda
