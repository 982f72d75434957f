#include "cuda/convolutions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

cudnnHandle_t created_handle() {
  cudnnHandle_t handle = nullptr;
  check(cudnn().cudnnCreate(&handle), "cudnnCreate");
  return handle;
}

std::string text_of(const ConvolutionSpec& s) {
  std::string text = fmt::format("{}×{}×{} → {}, {}×{}", s.in.channels, s.in.height, s.in.width, s.channels,
                                 s.kernel_height, s.kernel_width);
  if (s.stride_height != 1 || s.stride_width != 1) {
    text += fmt::format(", stride {}×{}", s.stride_height, s.stride_width);
  }
  if (s.dilation_height != 1 || s.dilation_width != 1) {
    text += fmt::format(", dilation {}×{}", s.dilation_height, s.dilation_width);
  }
  return s.groups == 1 ? text : text + fmt::format(", {} groups", s.groups);
}

std::string text_of(const ConvolutionSpec& spec, Index batch) {
  return fmt::format("{}, batch {}", text_of(spec), batch);
}

ConvolutionEngine engine_of(const Convolutions::Planned& planned) {
  const ConvolutionPlan& plan = planned.plan;
  const bool converted = planned.pass == ConvolutionPass::weights_small;
  return {.pass = fmt::format("{}{}", name_of(planned.pass), converted ? ", converted" : ""),
          .convolution = text_of(planned.spec, planned.batch),
          .engine = plan.engine,
          .last_resort = plan.fallback,
          .compiled = plan.compiled,
          .workspace_bytes = plan.workspace_bytes,
          .times = planned.times};
}

}  // namespace

std::string Convolutions::Planned::text() const {
  return fmt::format("{} of {}: {}", name_of(pass), text_of(spec, batch), plan.text());
}

Convolutions::Convolutions(Precision precision, Fallbacks* fallbacks)
    : precision_(precision),
      fallbacks_(fallbacks),
      weight_gradients_(chosen_weight_gradients()),
      handle_(created_handle()),
      planner_(precision, weight_gradients_, {.handle = handle_}) {}

Convolutions::~Convolutions() {
  plans_.clear();
  cudnn().cudnnDestroy(handle_);
}

Convolutions::Planned& Convolutions::planned(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) {
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
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    found = plans_.emplace(key, Planned{pass, spec, batch, planner_.plan(pass, spec, batch)}).first;
    order_.push_back(&found->second);
    const ConvolutionPlan& plan = found->second.plan;
    if (plan.found() && plan.fallback) {
      note(Fallback::engine, fmt::format("cuDNN recommends no engine in {} for the {}; it is a last resort",
                                         name_of(precision_), found->second.text()));
    }
  }
  return found->second;
}

bool Convolutions::can_fuse(const ConvolutionSpec& spec, Index batch) {
  Planned& fused = planned(ConvolutionPass::forward_fused, spec, batch);
  if (fused.plan.found() || std::exchange(fused.is_noted, true)) return fused.plan.found();
  note(Fallback::convolution,
       fmt::format("cuDNN has no {} kernel for a convolution ({}) that includes the bias{}: another kernel adds it",
                   name_of(precision_), text_of(spec, batch), spec.activation == Activation::relu ? " and ReLU" : ""));
  return false;
}

void Convolutions::note(Fallback kind, const std::string& text) const {
  if (fallbacks_ != nullptr) fallbacks_->note(kind, text);
}

std::vector<ConvolutionEngine> Convolutions::engines() const {
  std::vector<ConvolutionEngine> engines;
  for (const Planned* planned : order_) {
    if (planned->times > 0) engines.push_back(engine_of(*planned));
  }
  return engines;
}

void Convolutions::run(Queue& queue, ConvolutionPass pass, const ConvolutionSpec& spec, Index batch,
                       const ConvolutionMemory& memory, void* workspace) {
  Planned& planned = this->planned(pass, spec, batch);
  const ConvolutionPlan& plan = planned.plan;
  if (!plan.found()) {
    throw DeviceError(
        "cuDNN has no kernel for a convolution of this shape and precision; change its groups, dilation "
        "or channels, set precision = \"bf16\", or device = \"cpu\"");
  }
  ++planned.times;
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

// Which of cuDNN's engines compute a convolution.

namespace {

constexpr auto kDescriptors = CUDNN_TYPE_BACKEND_DESCRIPTOR;

/// Reads an attribute of many elements, and cuts off those that it does not have: cuDNN counts more engines than it
/// then gives. Descriptors are read into ones that were created for them.
template <typename T>
void read(const Descriptor& from, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
          std::vector<T>& elements) {
  if (elements.empty()) return;
  auto count = static_cast<std::int64_t>(elements.size());
  check(cudnn().cudnnBackendGetAttribute(from.get(), name, type, count, &count, elements.data()),
        "cudnnBackendGetAttribute");
  elements.resize(static_cast<std::size_t>(count));
}

std::size_t count_of(const Descriptor& from, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) {
  std::int64_t count = 0;
  check(cudnn().cudnnBackendGetAttribute(from.get(), name, type, 0, &count, nullptr), "cudnnBackendGetAttribute");
  return static_cast<std::size_t>(count);
}

template <typename T>
std::vector<T> list_of(const Descriptor& from, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) {
  std::vector<T> elements(count_of(from, name, type));
  read(from, name, type, elements);
  return elements;
}

std::int64_t number_of(const Descriptor& from, cudnnBackendAttributeName_t name) {
  std::vector<std::int64_t> number(1);
  read(from, name, CUDNN_TYPE_INT64, number);
  return number.at(0);
}

EngineChoice choice_of(std::shared_ptr<const Descriptor> graph, std::unique_ptr<Descriptor> configuration) {
  const Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> handle = {engine.get()};
  read(*configuration, CUDNN_ATTR_ENGINECFG_ENGINE, kDescriptors, handle);
  return {.graph = std::move(graph),
          .configuration = std::move(configuration),
          .engine = number_of(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
          .notes =
              list_of<cudnnBackendNumericalNote_t>(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE),
          .behavior =
              list_of<cudnnBackendBehaviorNote_t>(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE)};
}

}  // namespace

WeightGradients chosen_weight_gradients() {
  const char* const chosen = std::getenv("UNISONO_WEIGHT_GRADIENTS");
  if (chosen == nullptr || std::string_view(chosen) == "tuned") return WeightGradients::tuned;
  if (std::string_view(chosen) == "fp32") return WeightGradients::fp32;
  throw ConfigError(fmt::format(
      "UNISONO_WEIGHT_GRADIENTS is '{}' in the environment; it may be tuned (the default) or fp32", chosen));
}

bool EngineChoice::has(cudnnBackendNumericalNote_t note) const { return std::ranges::count(notes, note) > 0; }
bool EngineChoice::has(cudnnBackendBehaviorNote_t note) const { return std::ranges::count(behavior, note) > 0; }

std::string ConvolutionPlan::text() const {
  const char* const type = result == CUDNN_DATA_FLOAT ? "fp32" : "bf16";
  if (!found()) return fmt::format("no engine that gives {}", type);
  return fmt::format("engine {}{}{}, {}, workspace {:.1f} MiB", engine, fallback ? ", fallback" : "",
                     compiled ? ", compiled at run time" : "", type, static_cast<double>(workspace_bytes) / (1 << 20));
}

ConvolutionPlanner::ConvolutionPlanner(Precision precision, WeightGradients weight_gradients, PlanTarget target)
    : precision_(precision), weight_gradients_(weight_gradients), target_(target) {}

ConvolutionPlan ConvolutionPlanner::plan(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) const {
  const auto start = std::chrono::steady_clock::now();
  ConvolutionPlan plan;
  plan.result = result_of(pass, precision_);
  for (const cudnnBackendHeurMode_t mode : modes_of(pass)) {
    if (plan.found()) break;
    take_best(plan, offers(pass, spec, batch, mode));
    plan.fallback = plan.found() && mode == CUDNN_HEUR_MODE_FALLBACK;
  }
  plan.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

void ConvolutionPlanner::take_best(ConvolutionPlan& plan, std::vector<EngineChoice> offers) const {
  for (EngineChoice& choice : offers) {
    if (!is_welcome(choice)) continue;
    plan.execution = execution_of(choice);
    if (!plan.execution) continue;
    plan.configuration = std::move(choice.configuration);
    plan.workspace_bytes =
        static_cast<std::size_t>(number_of(*plan.execution, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    plan.engine = choice.engine;
    plan.compiled = choice.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION);
    return;
  }
}

/// Fallback engines are slow, and cuDNN compiles them at run time, for each batch size anew. Where a gradient can be
/// had in the small type instead, they are not asked for.
std::vector<cudnnBackendHeurMode_t> ConvolutionPlanner::modes_of(ConvolutionPass pass) const {
  const bool tuned = pass == ConvolutionPass::weights && stores_halves(precision_);
  if (tuned && weight_gradients_ == WeightGradients::tuned) return {CUDNN_HEUR_MODE_A};
  return {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK};
}

std::vector<EngineChoice> ConvolutionPlanner::offers(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch,
                                                     cudnnBackendHeurMode_t mode) const {
  const auto graph = std::make_shared<Descriptor>(convolution_graph(pass, spec, batch, precision_, target_.handle));
  if (graph->try_finalise() != CUDNN_STATUS_SUCCESS) return {};
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, *graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
#if CUDNN_VERSION >= 90800
  if (target_.described != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target_.described);
#endif
  if (heuristics.try_finalise() != CUDNN_STATUS_SUCCESS) return {};
  std::vector<std::unique_ptr<Descriptor>> configurations;
  std::vector<cudnnBackendDescriptor_t> handles(count_of(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, kDescriptors));
  for (cudnnBackendDescriptor_t& handle : handles) {
    configurations.push_back(std::make_unique<Descriptor>(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    handle = configurations.back()->get();
  }
  read(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, kDescriptors, handles);
  configurations.resize(handles.size());
  std::vector<EngineChoice> offers;
  for (auto& configuration : configurations) offers.push_back(choice_of(graph, std::move(configuration)));
  return offers;
}

bool ConvolutionPlanner::is_welcome(const EngineChoice& choice) const {
  if (choice.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
  if (choice.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return false;
  if (stores_halves(precision_)) return true;
  // Tensor cores round floats to tf32; other such kernels round them to fp16, whose range is smaller.
  if (choice.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
  return precision_ == Precision::tf32 || !choice.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

/// Null where cuDNN cannot.
std::unique_ptr<Descriptor> ConvolutionPlanner::execution_of(const EngineChoice& choice) const {
  auto execution = std::make_unique<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (target_.handle != nullptr) execution->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, target_.handle);
#if CUDNN_VERSION >= 90800
  if (target_.described != nullptr) execution->set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target_.described);
#endif
  execution->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *choice.configuration);
  return execution->try_finalise() == CUDNN_STATUS_SUCCESS ? std::move(execution) : nullptr;
}

// The passes of a convolution as graphs of cuDNN's operations.

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
