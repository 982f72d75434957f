// The attributes of each descriptor: their types and counts, setting and getting.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "simulated_cuda/cudnn.hpp"

namespace simulated {
namespace {

constexpr std::int64_t most_engines = 100;
constexpr std::int64_t refused_configurations = 3;

enum Use { required, optional, read_only };

/// An attribute of type FLOAT may be DOUBLE as well.
struct Rule {
  cudnnBackendDescriptorType_t kind;
  int name;
  cudnnBackendAttributeType_t type;
  std::int64_t most;  // elements
  Use use;
};

// clang-format off
#define OF(kind) CUDNN_BACKEND_##kind##_DESCRIPTOR
#define NAMED(name) CUDNN_ATTR_##name
#define TYPE(type) CUDNN_TYPE_##type
constexpr Rule rules[] = {
    {OF(TENSOR), NAMED(TENSOR_UNIQUE_ID), TYPE(INT64), 1, required},
    {OF(TENSOR), NAMED(TENSOR_DATA_TYPE), TYPE(DATA_TYPE), 1, required},
    {OF(TENSOR), NAMED(TENSOR_DIMENSIONS), TYPE(INT64), 8, required},
    {OF(TENSOR), NAMED(TENSOR_STRIDES), TYPE(INT64), 8, required},
    {OF(TENSOR), NAMED(TENSOR_BYTE_ALIGNMENT), TYPE(INT64), 1, required},
    {OF(TENSOR), NAMED(TENSOR_IS_VIRTUAL), TYPE(BOOLEAN), 1, optional},
    {OF(CONVOLUTION), NAMED(CONVOLUTION_COMP_TYPE), TYPE(DATA_TYPE), 1, required},
    {OF(CONVOLUTION), NAMED(CONVOLUTION_CONV_MODE), TYPE(CONVOLUTION_MODE), 1, required},
    {OF(CONVOLUTION), NAMED(CONVOLUTION_DILATIONS), TYPE(INT64), 8, required},
    {OF(CONVOLUTION), NAMED(CONVOLUTION_FILTER_STRIDES), TYPE(INT64), 8, required},
    {OF(CONVOLUTION), NAMED(CONVOLUTION_PRE_PADDINGS), TYPE(INT64), 8, required},
    {OF(CONVOLUTION), NAMED(CONVOLUTION_POST_PADDINGS), TYPE(INT64), 8, required},
    {OF(CONVOLUTION), NAMED(CONVOLUTION_SPATIAL_DIMS), TYPE(INT64), 1, required},
    {OF(POINTWISE), NAMED(POINTWISE_MODE), TYPE(POINTWISE_MODE), 1, required},
    {OF(POINTWISE), NAMED(POINTWISE_MATH_PREC), TYPE(DATA_TYPE), 1, required},
    {OF(POINTWISE), NAMED(POINTWISE_RELU_LOWER_CLIP), TYPE(FLOAT), 1, optional},
    {OF(POINTWISE), NAMED(POINTWISE_RELU_LOWER_CLIP_SLOPE), TYPE(FLOAT), 1, optional},
    {OF(OPERATION_CONVOLUTION_FORWARD), NAMED(OPERATION_CONVOLUTION_FORWARD_X), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_FORWARD), NAMED(OPERATION_CONVOLUTION_FORWARD_W), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_FORWARD), NAMED(OPERATION_CONVOLUTION_FORWARD_Y), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_FORWARD), NAMED(OPERATION_CONVOLUTION_FORWARD_CONV_DESC), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_FORWARD), NAMED(OPERATION_CONVOLUTION_FORWARD_ALPHA), TYPE(FLOAT), 1, required},
    {OF(OPERATION_CONVOLUTION_FORWARD), NAMED(OPERATION_CONVOLUTION_FORWARD_BETA), TYPE(FLOAT), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_DATA), NAMED(OPERATION_CONVOLUTION_BWD_DATA_DX), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_DATA), NAMED(OPERATION_CONVOLUTION_BWD_DATA_W), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_DATA), NAMED(OPERATION_CONVOLUTION_BWD_DATA_DY), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_DATA), NAMED(OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_DATA), NAMED(OPERATION_CONVOLUTION_BWD_DATA_ALPHA), TYPE(FLOAT), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_DATA), NAMED(OPERATION_CONVOLUTION_BWD_DATA_BETA), TYPE(FLOAT), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_FILTER), NAMED(OPERATION_CONVOLUTION_BWD_FILTER_X), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_FILTER), NAMED(OPERATION_CONVOLUTION_BWD_FILTER_DW), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_FILTER), NAMED(OPERATION_CONVOLUTION_BWD_FILTER_DY), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_FILTER), NAMED(OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_FILTER), NAMED(OPERATION_CONVOLUTION_BWD_FILTER_ALPHA), TYPE(FLOAT), 1, required},
    {OF(OPERATION_CONVOLUTION_BACKWARD_FILTER), NAMED(OPERATION_CONVOLUTION_BWD_FILTER_BETA), TYPE(FLOAT), 1, required},
    {OF(OPERATION_POINTWISE), NAMED(OPERATION_POINTWISE_PW_DESCRIPTOR), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_POINTWISE), NAMED(OPERATION_POINTWISE_XDESC), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(OPERATION_POINTWISE), NAMED(OPERATION_POINTWISE_BDESC), TYPE(BACKEND_DESCRIPTOR), 1, optional},
    {OF(OPERATION_POINTWISE), NAMED(OPERATION_POINTWISE_YDESC), TYPE(BACKEND_DESCRIPTOR), 1, optional},
    {OF(OPERATION_POINTWISE), NAMED(OPERATION_POINTWISE_DYDESC), TYPE(BACKEND_DESCRIPTOR), 1, optional},
    {OF(OPERATION_POINTWISE), NAMED(OPERATION_POINTWISE_DXDESC), TYPE(BACKEND_DESCRIPTOR), 1, optional},
    {OF(OPERATION_POINTWISE), NAMED(OPERATION_POINTWISE_ALPHA1), TYPE(FLOAT), 1, optional},
    {OF(OPERATION_POINTWISE), NAMED(OPERATION_POINTWISE_ALPHA2), TYPE(FLOAT), 1, optional},
    {OF(OPERATIONGRAPH), NAMED(OPERATIONGRAPH_HANDLE), TYPE(HANDLE), 1, optional},
    {OF(OPERATIONGRAPH), NAMED(OPERATIONGRAPH_OPS), TYPE(BACKEND_DESCRIPTOR), 64, required},
    {OF(OPERATIONGRAPH), NAMED(OPERATIONGRAPH_ENGINE_GLOBAL_COUNT), TYPE(INT64), 1, read_only},
    {OF(ENGINEHEUR), NAMED(ENGINEHEUR_OPERATION_GRAPH), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(ENGINEHEUR), NAMED(ENGINEHEUR_MODE), TYPE(HEUR_MODE), 1, required},
    {OF(ENGINEHEUR), NAMED(ENGINEHEUR_RESULTS), TYPE(BACKEND_DESCRIPTOR), 64, read_only},
    {OF(ENGINE), NAMED(ENGINE_OPERATION_GRAPH), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(ENGINE), NAMED(ENGINE_GLOBAL_INDEX), TYPE(INT64), 1, required},
    {OF(ENGINE), NAMED(ENGINE_NUMERICAL_NOTE), TYPE(NUMERICAL_NOTE), 64, read_only},
    {OF(ENGINE), NAMED(ENGINE_BEHAVIOR_NOTE), TYPE(BEHAVIOR_NOTE), 64, read_only},
    {OF(ENGINE), NAMED(ENGINE_KNOB_INFO), TYPE(BACKEND_DESCRIPTOR), 64, read_only},
    {OF(ENGINECFG), NAMED(ENGINECFG_ENGINE), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(ENGINECFG), NAMED(ENGINECFG_WORKSPACE_SIZE), TYPE(INT64), 1, read_only},
    {OF(EXECUTION_PLAN), NAMED(EXECUTION_PLAN_HANDLE), TYPE(HANDLE), 1, optional},
    {OF(EXECUTION_PLAN), NAMED(EXECUTION_PLAN_ENGINE_CONFIG), TYPE(BACKEND_DESCRIPTOR), 1, required},
    {OF(EXECUTION_PLAN), NAMED(EXECUTION_PLAN_WORKSPACE_SIZE), TYPE(INT64), 1, read_only},
    {OF(VARIANT_PACK), NAMED(VARIANT_PACK_UNIQUE_IDS), TYPE(INT64), 64, required},
    {OF(VARIANT_PACK), NAMED(VARIANT_PACK_DATA_POINTERS), TYPE(VOID_PTR), 64, required},
    {OF(VARIANT_PACK), NAMED(VARIANT_PACK_WORKSPACE), TYPE(VOID_PTR), 1, optional},
};
#undef OF
#undef NAMED
#undef TYPE
// clang-format on

const Rule& rule_for(const Descriptor& descriptor, int name) {
  const auto* found = std::find_if(std::begin(rules), std::end(rules),
                                   [&](const Rule& r) { return r.kind == descriptor.kind && r.name == name; });
  if (found == std::end(rules)) refuse("attribute " + std::to_string(name) + " is not of this descriptor");
  return *found;
}

std::size_t size_of_type(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN:
      return sizeof(bool);
    case CUDNN_TYPE_INT64:
      return sizeof(std::int64_t);
    case CUDNN_TYPE_DOUBLE:
      return sizeof(double);
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return sizeof(void*);
    default:
      return sizeof(int);  // enumerators, and float
  }
}

bool type_fits(const Rule& rule, cudnnBackendAttributeType_t type) {
  return type == rule.type || (rule.type == CUDNN_TYPE_FLOAT && type == CUDNN_TYPE_DOUBLE);
}

template <typename T>
AttributeValue value_of(cudnnBackendAttributeType_t type, const std::vector<T>& elements) {
  AttributeValue value;
  value.type = type;
  value.count = static_cast<std::int64_t>(elements.size());
  value.bytes.resize(elements.size() * sizeof(T));
  if (!elements.empty()) std::memcpy(value.bytes.data(), elements.data(), value.bytes.size());
  return value;
}

AttributeValue value_of(const std::vector<DescriptorPointer>& elements) {
  AttributeValue value;
  value.type = CUDNN_TYPE_BACKEND_DESCRIPTOR;
  value.count = static_cast<std::int64_t>(elements.size());
  value.children = elements;
  return value;
}

AttributeValue computed(const Descriptor& source, int name) {
  switch (name) {
    case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
      return value_of<std::int64_t>(CUDNN_TYPE_INT64, {most_engines});
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      return value_of(source.results);
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      return value_of(CUDNN_TYPE_NUMERICAL_NOTE, source.engine.notes);
    case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
      return value_of(CUDNN_TYPE_BEHAVIOR_NOTE, source.engine.compiled
                                                    ? std::vector{CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION}
                                                    : std::vector<cudnnBackendBehaviorNote_t>{});
    case CUDNN_ATTR_ENGINE_KNOB_INFO:
      return value_of({});
    default:  // the workspace of a configuration and of a plan
      return value_of<std::int64_t>(CUDNN_TYPE_INT64, {static_cast<std::int64_t>(source.engine.workspace())});
  }
}

}  // namespace

std::vector<std::int64_t> Descriptor::integers(int name) const {
  const AttributeValue& value = attributes.at(name);
  std::vector<std::int64_t> result(static_cast<std::size_t>(value.count));
  std::memcpy(result.data(), value.bytes.data(), value.bytes.size());
  return result;
}

int Descriptor::enumerator(int name) const {
  int result = 0;
  std::memcpy(&result, attributes.at(name).bytes.data(), sizeof result);
  return result;
}

bool Descriptor::boolean(int name) const { return has(name) && attributes.at(name).bytes[0] != std::byte{0}; }

double Descriptor::real(int name, double otherwise) const {
  if (!has(name)) return otherwise;
  const AttributeValue& value = attributes.at(name);
  double wide = 0;
  float narrow = 0;
  if (value.type == CUDNN_TYPE_DOUBLE) std::memcpy(&wide, value.bytes.data(), sizeof wide);
  if (value.type == CUDNN_TYPE_FLOAT) std::memcpy(&narrow, value.bytes.data(), sizeof narrow);
  return value.type == CUDNN_TYPE_DOUBLE ? wide : narrow;
}

void check_attributes_present(const Descriptor& target) {
  for (const Rule& rule : rules) {
    if (rule.kind != target.kind || rule.use != required || target.has(rule.name)) continue;
    refuse("attribute " + std::to_string(rule.name) + " is required and was not set");
  }
}

void set_attribute(Descriptor& target, int name, cudnnBackendAttributeType_t type, std::int64_t count,
                   const void* elements) {
  demand(!target.finalized, "the descriptor is finalized");
  const Rule& rule = rule_for(target, name);
  demand(rule.use != read_only, "the attribute can only be read");
  if (!type_fits(rule, type)) throw Refused{CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the attribute has another type"};
  demand(count >= 1 && count <= rule.most && elements != nullptr, "the attribute takes another number of elements");
  AttributeValue value;
  value.type = type;
  value.count = count;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto child = find_descriptor(static_cast<const cudnnBackendDescriptor_t*>(elements)[i]);
      demand(child != nullptr, "an element is no descriptor");
      if (name == CUDNN_ATTR_OPERATIONGRAPH_OPS && !child->finalized) {
        throw Refused{CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "an operation is not finalized"};
      }
      value.children.push_back(std::make_shared<const Descriptor>(*child));
    }
  } else {
    const auto* begin = static_cast<const std::byte*>(elements);
    value.bytes.assign(begin, begin + static_cast<std::size_t>(count) * size_of_type(type));
  }
  target.attributes[name] = std::move(value);
}

void get_attribute(const Descriptor& source, int name, cudnnBackendAttributeType_t type, std::int64_t requested,
                   std::int64_t* count, void* elements) {
  if (!source.finalized) throw Refused{CUDNN_STATUS_NOT_INITIALIZED, "the descriptor is not finalized"};
  const Rule& rule = rule_for(source, name);
  if (!type_fits(rule, type)) throw Refused{CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "the attribute has another type"};
  demand(rule.use == read_only || source.has(name), "the attribute was not set");
  const AttributeValue value = rule.use == read_only ? computed(source, name) : source.attributes.at(name);
  demand(value.type == type, "the attribute was set with another type");
  demand(requested >= 0 && (requested == 0 ? count != nullptr : elements != nullptr), "there is nowhere to write to");
  const std::int64_t written = requested == 0 ? 0 : std::min(requested, value.count);
  // cuDNN counts all configurations that its heuristics name, and then gives those that the device takes.
  const std::int64_t more = name == CUDNN_ATTR_ENGINEHEUR_RESULTS ? refused_configurations : 0;
  if (count != nullptr) *count = requested == 0 ? value.count + more : written;
  if (type != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    if (written != 0) std::memcpy(elements, value.bytes.data(), static_cast<std::size_t>(written) * size_of_type(type));
    return;
  }
  for (std::int64_t i = 0; i < written; ++i) {
    const auto target = find_descriptor(static_cast<cudnnBackendDescriptor_t*>(elements)[i]);
    const Descriptor& child = *value.children[static_cast<std::size_t>(i)];
    demand(target && target->kind == child.kind, "an element is no descriptor of the result's kind");
    *target = child;
  }
}

}  // namespace simulated
