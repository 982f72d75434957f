#pragma once
// cuDNN's backend descriptors, and the graphs that they describe.

#include <cudnn.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "simulated_cuda/machine.hpp"
#include "simulated_cuda/numbers.hpp"

namespace simulated {

/// Why a call is refused; thrown inside the library, returned at its border.
struct Refused {
  cudnnStatus_t status;
  std::string why;
};
[[noreturn]] inline void refuse(std::string why) { throw Refused{CUDNN_STATUS_BAD_PARAM, std::move(why)}; }
inline void demand(bool condition, const char* why) {
  if (!condition) refuse(why);
}

struct Descriptor;
using DescriptorPointer = std::shared_ptr<const Descriptor>;

/// The elements of one attribute.
struct AttributeValue {
  cudnnBackendAttributeType_t type = CUDNN_TYPE_INT64;
  std::int64_t count = 0;
  std::vector<std::byte> bytes;
  std::vector<DescriptorPointer> children;  ///< as they were when the attribute was set
};

struct TensorGraph;

/// An engine that is offered for a graph.
struct Engine {
  int number = -1;  ///< cuDNN's kind of number
  std::vector<cudnnBackendNumericalNote_t> notes;
  bool compiled = false;  ///< at run time, as its note says
  bool builds = true;     ///< false: its plans are refused, as some are on a device

  bool has(cudnnBackendNumericalNote_t note) const;
  bool has_tensor_cores() const { return has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE); }
  bool is_unordered() const { return has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC); }
  std::size_t workspace() const;
};

/// Any descriptor: attributes by name. What finalizing computed is kept beside them.
struct Descriptor {
  cudnnBackendDescriptorType_t kind = CUDNN_BACKEND_TENSOR_DESCRIPTOR;
  bool finalized = false;
  std::map<int, AttributeValue> attributes;
  std::shared_ptr<const TensorGraph> graph;  ///< of operation graphs and what is made from them
  std::vector<DescriptorPointer> results;    ///< of heuristics: engine configurations, best first
  Engine engine;                             ///< of engines and what is made from them

  bool has(int name) const { return attributes.count(name) != 0; }
  const Descriptor& child(int name) const { return *attributes.at(name).children.at(0); }
  std::vector<std::int64_t> integers(int name) const;
  std::int64_t integer(int name) const { return integers(name).at(0); }
  int enumerator(int name) const;
  bool boolean(int name) const;
  /// A float or double; `otherwise` where it is not set.
  double real(int name, double otherwise) const;
};

void set_attribute(Descriptor& target, int name, cudnnBackendAttributeType_t type, std::int64_t count,
                   const void* elements);
void get_attribute(const Descriptor& source, int name, cudnnBackendAttributeType_t type, std::int64_t requested,
                   std::int64_t* count, void* elements);
/// Checks what was set and computes what follows from it.
void finalize(Descriptor& target);
void check_attributes_present(const Descriptor& target);

struct Tensor {
  std::int64_t id = 0;
  Number number = Number::float32;
  std::vector<std::int64_t> extents, strides;
  std::int64_t alignment = 1;
  bool is_virtual = false;

  std::int64_t size() const;  ///< elements
  std::size_t bytes() const;  ///< from the first element to the last
  bool operator==(const Tensor&) const = default;
};

enum class Operation { forward, backward_data, backward_filter, add, multiply, identity, relu, relu_gradient };

struct TensorOperation {
  Operation kind = Operation::identity;
  std::vector<std::int64_t> inputs;  ///< forward: x, w. backward data: dy, w. filter: x, dy. ReLU's gradient: x, dy
  std::int64_t output = 0;
  double alpha = 1, beta = 0;     ///< of a convolution
  double alpha1 = 1, alpha2 = 1;  ///< that multiply a pointwise operation's inputs
  std::int64_t before[2] = {0, 0}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  bool flipped = false;  ///< convolution; cross-correlation otherwise

  bool is_convolution() const { return kind <= Operation::backward_filter; }
};

/// Operations in an order in which they can run.
struct TensorGraph {
  std::map<std::int64_t, Tensor> tensors;
  std::vector<TensorOperation> operations;
};

TensorGraph graph_of(const std::vector<DescriptorPointer>& operations);
void check_convolution(const Descriptor& operation);
void check_pointwise(const Descriptor& operation);
Tensor tensor_of(const Descriptor& descriptor);

/// The engines that take a graph, best first; see cudnn_engines.cpp.
struct Offers {
  std::vector<Engine> tuned;     ///< by the modes A, B and INSTANT
  std::vector<Engine> fallback;  ///< by FALLBACK
};
Offers offers_for(const TensorGraph& graph);
/// Whether cudnn_listed.inc may know it: channels are innermost, and memory is aligned to 16 bytes.
bool is_listable(const TensorGraph& graph);
/// What it says, if it knows the graph.
std::optional<Offers> listed(const TensorGraph& graph);

/// Computes with all memory open. Sums in double, and in float and an order that changes on an unordered engine.
/// \param pointers  by id, of the tensors that are not virtual
void run_graph(const TensorGraph& graph, const std::map<std::int64_t, void*>& pointers, const Engine& engine);

struct CudnnHandle {
  int device = 0;
  cudaStream_t stream = nullptr;
};
std::shared_ptr<CudnnHandle> find_cudnn(cudnnHandle_t handle);
std::shared_ptr<Descriptor> find_descriptor(cudnnBackendDescriptor_t handle);

}  // namespace simulated
