// Finalizing descriptors, and the engines that are offered for a graph: those that cuDNN lists (cudnn_listed.inc) or,
// for graphs that it was not asked about:
//   0  computes exactly: one convolution of float tensors; no notes
//   1  tensor cores: products of tf32 where tensors are float; takes pointwise operations behind a convolution as well
//   2  sums in float, in an order that changes from run to run: one convolution
//   3  is offered first and refused when its plan is built: what asks must try the next one
//   70 gradients of filters as floats from tensors of bf16: for these cuDNN has nothing tuned, for any shape, and its
//      fallback is this one alone, which it compiles at run time, and cannot list where there is no driver
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
  return output.number == Number::float32 && !alone;
}

/// Of whole packs of eight channels.
bool widened_filter_gradient(const TensorGraph& graph) {
  if (graph.operations.size() != 1 || graph.operations[0].kind != Operation::backward_filter) return false;
  const TensorOperation& operation = graph.operations[0];
  const Tensor& x = graph.tensors.at(operation.inputs[0]);
  const Tensor& dy = graph.tensors.at(operation.inputs[1]);
  return x.number == Number::bfloat16 && dy.number == Number::bfloat16 &&
         graph.tensors.at(operation.output).number == Number::float32 && x.extents[1] % 8 == 0 &&
         dy.extents[1] % 8 == 0;
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
  if (is_listable(*heuristics.graph) && !listed(*heuristics.graph)) ++machine().counts.unlisted_graphs;
  const Offers offers = offers_for(*heuristics.graph);
  if (offers.tuned.empty() && offers.fallback.empty()) {
    throw Refused{CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "no engine takes this graph"};
  }
  for (const Engine& offered : mode == CUDNN_HEUR_MODE_FALLBACK ? offers.fallback : offers.tuned) {
    Descriptor engine;
    engine.kind = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    engine.finalized = true;
    engine.graph = heuristics.graph;
    engine.engine = offered;
    AttributeValue index;
    index.count = 1;
    index.bytes.assign(sizeof(std::int64_t), std::byte{0});
    index.bytes[0] = static_cast<std::byte>(offered.number);
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
  const auto number = target.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  const Offers offers = offers_for(*target.graph);
  for (const auto* list : {&offers.tuned, &offers.fallback}) {
    for (const Engine& engine : *list) {
      if (engine.number != number) continue;
      target.engine = engine;
      return;
    }
  }
  throw Refused{CUDNN_STATUS_NOT_SUPPORTED, "the engine does not take this graph"};
}

void build_plan(Descriptor& target) {
  take_over(target, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  if (!target.engine.builds) throw Refused{CUDNN_STATUS_NOT_SUPPORTED, "the engine refuses; try the next one"};
}

void check_pack(const Descriptor& target) {
  auto ids = target.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  demand(target.attributes.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).count == static_cast<std::int64_t>(ids.size()),
         "a variant pack has as many pointers as ids");
  std::sort(ids.begin(), ids.end());
  demand(std::adjacent_find(ids.begin(), ids.end()) == ids.end(), "a variant pack names an id twice");
}

}  // namespace

bool Engine::has(cudnnBackendNumericalNote_t note) const { return std::count(notes.begin(), notes.end(), note) != 0; }
std::size_t Engine::workspace() const {
  if (is_unordered()) return std::size_t{65536};
  return has_tensor_cores() ? std::size_t{32768} : 0;
}

/// Of floats, too, a tensor core's engine has the one note: it makes tf32.
Offers offers_for(const TensorGraph& graph) {
  const Engine exact{.number = 0, .notes = {}};
  const Engine tensor_cores{.number = 1, .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}};
  const Engine unordered{.number = 2, .notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}};
  const Engine refused{.number = 3, .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, .builds = false};
  const Engine compiled{.number = 70, .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, .compiled = true};
  if (widened_filter_gradient(graph)) return {.tuned = {}, .fallback = {compiled}};
  if (const auto known = listed(graph)) return *known;
  if (!known_pattern(graph)) return {};
  if (!single(graph) || !graph.operations[0].is_convolution()) {
    return {.tuned = {refused, tensor_cores}, .fallback = {tensor_cores}};
  }
  Offers offers{.tuned = {refused, tensor_cores, unordered}, .fallback = {}};
  if (floats(graph)) offers.tuned.push_back(exact);
  offers.fallback = {offers.tuned.back()};
  return offers;
}

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
