// Which of cuDNN's engines compute a convolution.
#include "cuda/convolution_plans.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
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

}  // namespace unisono::kernels::cuda
