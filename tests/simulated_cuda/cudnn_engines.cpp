// Finalizing descriptors, and the engines that are offered for a graph:
//   0  computes exactly: one convolution of float tensors; no notes
//   1  tensor cores: products of tf32 where tensors are float; takes pointwise operations behind a convolution as well
//   2  sums in float, in an order that changes from run to run: one convolution
//   3  is offered first and refused when its plan is built: what asks must try the next one
#include <algorithm>

#include "simulated_cuda/cudnn.hpp"

namespace simulated {
namespace {

bool convolution_supported(const TensorGraph& graph, const TensorOperation& operation, bool alone) {
  const Tensor& first = graph.tensors.at(operation.inputs[0]);
  const Tensor& second = graph.tensors.at(operation.inputs[1]);
  const Tensor& output = graph.tensors.at(operation.output);
  if (first.number != second.number || first.is_virtual || second.is_virtual) return false;
  if (output.number == first.number) return true;
  if (output.number != Number::float32) return false;
  // Gradients of filters as floats: of whole packs of eight channels alone, as cuDNN 9.19 has it on an H100.
  if (operation.kind == Operation::backward_filter) return first.extents[1] % 8 == 0 && second.extents[1] % 8 == 0;
  return !alone;
}

bool single(const TensorGraph& graph) { return graph.operations.size() == 1; }

bool floats(const TensorGraph& graph) {
  return std::all_of(graph.tensors.begin(), graph.tensors.end(),
                     [](const auto& entry) { return entry.second.number == Number::float32; });
}

/// One convolution, or a convolution or nothing and pointwise operations behind it, all connected.
bool known_pattern(const TensorGraph& graph) {
  const auto convolutions = std::count_if(graph.operations.begin(), graph.operations.end(),
                                          [](const auto& operation) { return operation.is_convolution(); });
  if (single(graph) && convolutions == 1) return convolution_supported(graph, graph.operations[0], true);
  if (convolutions > 1) return false;
  for (const TensorOperation& operation : graph.operations) {
    if (operation.is_convolution()) {
      if (operation.kind == Operation::backward_filter || operation.beta != 0) return false;
      if (!convolution_supported(graph, operation, false)) return false;
      continue;
    }
    const bool connected = &operation == &graph.operations[0] ||
                           std::any_of(operation.inputs.begin(), operation.inputs.end(), [&](std::int64_t input) {
                             return std::any_of(graph.operations.begin(), graph.operations.end(),
                                                [&](const auto& other) { return other.output == input; });
                           });
    if (!connected) return false;
  }
  return true;
}

void check_tensor(const Descriptor& target) {
  const Tensor tensor = tensor_of(target);
  const auto rank = tensor.extents.size();
  demand(rank >= 3 && rank == tensor.strides.size(), "a tensor has 3 to 8 dimensions and as many strides");
  demand(tensor.alignment > 0 && tensor.alignment % static_cast<std::int64_t>(size_of(tensor.number)) == 0,
         "a tensor's alignment is no multiple of its elements' size");
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // stride, extent
  for (std::size_t i = 0; i < rank; ++i) {
    demand(tensor.extents[i] >= 1 && tensor.strides[i] >= 0, "a tensor's extents or strides are negative or zero");
    if (tensor.extents[i] > 1) steps.emplace_back(tensor.strides[i], tensor.extents[i]);
  }
  std::sort(steps.begin(), steps.end());
  std::int64_t reach = 0;  // of the faster dimensions
  for (const auto& [stride, extent] : steps) {
    demand(stride > reach, "a tensor's elements overlap");
    reach += stride * (extent - 1);
  }
}

void check_parameters(const Descriptor& target) {
  const auto spatial = target.integer(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
  if (spatial != 2) throw Refused{CUDNN_STATUS_NOT_SUPPORTED, "convolutions of two dimensions are simulated"};
  for (const int name : {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                         CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS}) {
    const bool padding = name == CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS || name == CUDNN_ATTR_CONVOLUTION_POST_PADDINGS;
    const auto values = target.integers(name);
    demand(values.size() == 2, "a convolution has as many paddings, strides and dilations as dimensions");
    for (const auto value : values) demand(value >= (padding ? 0 : 1), "a padding, stride or dilation is too small");
  }
  if (target.enumerator(CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT) {
    throw Refused{CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "convolutions that compute in float are simulated"};
  }
}

void check_pointwise_parameters(const Descriptor& target) {
  const bool plain = target.real(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0) == 0 &&
                     target.real(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0) == 0;
  const bool floats_only = target.enumerator(CUDNN_ATTR_POINTWISE_MATH_PREC) == CUDNN_DATA_FLOAT;
  if (!plain || !floats_only) throw Refused{CUDNN_STATUS_NOT_SUPPORTED, "the pointwise operation is not simulated"};
}

void take_over(Descriptor& target, int name, cudnnBackendDescriptorType_t kind) {
  const Descriptor& source = target.child(name);
  if (source.kind != kind) throw Refused{CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE, "a descriptor has the wrong kind"};
  demand(source.finalized, "a descriptor was not finalized when it was set");
  target.graph = source.graph;
  target.engine = source.engine;
}

void find_engines(Descriptor& heuristics) {
  take_over(heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const int mode = heuristics.enumerator(CUDNN_ATTR_ENGINEHEUR_MODE);
  demand(mode >= CUDNN_HEUR_MODE_INSTANT && mode < CUDNN_HEUR_MODES_COUNT, "no such mode of heuristics");
  auto engines = engines_for(*heuristics.graph);
  if (engines.empty()) throw Refused{CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "no engine takes this graph"};
  if (mode == CUDNN_HEUR_MODE_FALLBACK) engines = {single(*heuristics.graph) ? engines.back() : tensor_core_engine};
  for (const int number : engines) {
    Descriptor engine;
    engine.kind = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    engine.finalized = true;
    engine.graph = heuristics.graph;
    engine.engine = number;
    AttributeValue index;
    index.count = 1;
    index.bytes.assign(sizeof(std::int64_t), std::byte{0});
    index.bytes[0] = static_cast<std::byte>(number);
    engine.attributes[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = index;
    engine.attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] =
        heuristics.attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    Descriptor configuration = engine;
    configuration.kind = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    configuration.attributes.clear();
    AttributeValue value;
    value.type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    value.count = 1;
    value.children.push_back(std::make_shared<const Descriptor>(std::move(engine)));
    configuration.attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = std::move(value);
    heuristics.results.push_back(std::make_shared<const Descriptor>(std::move(configuration)));
  }
}

void choose_engine(Descriptor& target) {
  take_over(target, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  target.engine = static_cast<int>(target.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  const auto engines = engines_for(*target.graph);
  if (std::count(engines.begin(), engines.end(), target.engine) == 0) {
    throw Refused{CUDNN_STATUS_NOT_SUPPORTED, "the engine does not take this graph"};
  }
}

void build_plan(Descriptor& target) {
  take_over(target, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (!builds(target.engine)) throw Refused{CUDNN_STATUS_NOT_SUPPORTED, "the engine refuses; try the next one"};
}

void check_pack(const Descriptor& target) {
  auto ids = target.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  demand(target.attributes.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count == static_cast<std::int64_t>(ids.size()),
         "a variant pack has as many pointers as ids");
  std::sort(ids.begin(), ids.end());
  demand(std::adjacent_find(ids.begin(), ids.end()) == ids.end(), "a variant pack names an id twice");
}

}  // namespace

std::vector<int> engines_for(const TensorGraph& graph) {
  if (!known_pattern(graph)) return {};
  if (!single(graph) || !graph.operations[0].is_convolution()) return {refused_engine, tensor_core_engine};
  std::vector<int> engines{refused_engine, tensor_core_engine, unordered_engine};
  if (floats(graph)) engines.push_back(exact_engine);
  return engines;
}

/// Of floats, too, a tensor core's engine has the one note: it makes tf32.
std::vector<cudnnBackendNumericalNote_t> notes_of(int engine, const TensorGraph&) {
  if (engine == unordered_engine) return {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
  if (engine == exact_engine) return {};
  return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
}

std::size_t workspace_of(int engine) { return engine == exact_engine ? 0 : std::size_t{16384} << engine; }
bool builds(int engine) { return engine != refused_engine; }

void finalize(Descriptor& target) {
  demand(!target.finalized, "the descriptor is finalized already");
  check_attributes_present(target);
  switch (target.kind) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      check_tensor(target);
      break;
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
      check_parameters(target);
      break;
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
      check_pointwise_parameters(target);
      break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      check_pointwise(target);
      break;
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
      target.graph =
          std::make_shared<const TensorGraph>(graph_of(target.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).children));
      break;
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      find_engines(target);
      break;
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
      choose_engine(target);
      break;
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
      take_over(target, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      break;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
      build_plan(target);
      break;
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      check_pack(target);
      break;
    default:
      check_convolution(target);
      break;
  }
  target.finalized = true;
}

}  // namespace simulated
