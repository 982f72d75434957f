#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda/convolution_graph.hpp"

namespace unisono::kernels::cuda {

/// How cuDNN returns the gradients of convolutions' weights where activations are bf16. Converted to fp32 in any case.
enum class WeightGradients {
  tuned,  ///< as fp32 where cuDNN's heuristics have a tuned engine for that, otherwise as bf16
  fp32,   ///< as fp32 also where only a fallback engine can, which cuDNN compiles at run time
};
/// What UNISONO_WEIGHT_GRADIENTS says in the environment: "tuned", the default, or "fp32". \throws ConfigError
WeightGradients chosen_weight_gradients();

/// The device for which plans are made.
struct PlanTarget {
  cudnnHandle_t handle = nullptr;         ///< of a GPU
  const Descriptor* described = nullptr;  ///< of cuDNN 9.8: a GPU that need not be there; nothing can run
};

/// An engine, and a configuration of it, that cuDNN names for a graph.
struct EngineChoice {
  std::shared_ptr<const Descriptor> graph;  ///< which must outlive the configuration until a plan is made
  std::unique_ptr<Descriptor> configuration;
  std::int64_t engine = -1;  ///< cuDNN's number of it, among those of such graphs
  std::vector<cudnnBackendNumericalNote_t> notes;
  std::vector<cudnnBackendBehaviorNote_t> behavior;

  bool has(cudnnBackendNumericalNote_t note) const;
  bool has(cudnnBackendBehaviorNote_t note) const;
};

/// How a pass is computed; what the choice was is kept for people to read.
struct ConvolutionPlan {
  std::unique_ptr<Descriptor> configuration, execution;
  std::size_t workspace_bytes = 0;
  std::int64_t engine = -1;  ///< -1: there is none
  bool fallback = false;     ///< from cuDNN's fallback list: not chosen for its speed
  bool compiled = false;     ///< its kernel was compiled when the plan was made
  cudnnDataType_t result = CUDNN_DATA_FLOAT;
  double seconds = 0;  ///< that making it took

  bool found() const { return engine >= 0; }
  /// "engine 70, fallback, compiled at run time, fp32, workspace 1.5 MiB", or "no engine that gives fp32"
  std::string text() const;
};

/// Makes plans that are deterministic, sum in fp32, and round inputs no further than the precision says.
class ConvolutionPlanner {
 public:
  ConvolutionPlanner(Precision precision, WeightGradients weight_gradients, PlanTarget target);

  /// A plan with the best engine that cuDNN offers and is_welcome.
  ConvolutionPlan plan(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) const;
  /// All that a mode of cuDNN's heuristics offers, best first.
  std::vector<EngineChoice> offers(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch,
                                   cudnnBackendHeurMode_t mode) const;
  /// Whether a plan of it can be made.
  bool builds(const EngineChoice& choice) const { return execution_of(choice) != nullptr; }
  bool is_welcome(const EngineChoice& choice) const;

 private:
  std::vector<cudnnBackendHeurMode_t> modes_of(ConvolutionPass pass) const;
  void take_best(ConvolutionPlan& plan, std::vector<EngineChoice> offers) const;
  std::unique_ptr<Descriptor> execution_of(const EngineChoice& choice) const;

  Precision precision_;
  WeightGradients weight_gradients_;
  PlanTarget target_;
};

}  // namespace unisono::kernels::cuda
