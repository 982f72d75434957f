// cuDNN's functions.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "simulated_cuda/block.hpp"
#include "simulated_cuda/cudnn.hpp"

namespace simulated {
namespace {

template <typename Handle, typename Object>
Handles<Handle, Object>& handles() {
  static auto& all = *new Handles<Handle, Object>;
  return all;
}
auto& libraries() { return handles<cudnnHandle_t, CudnnHandle>(); }
auto& descriptors() { return handles<cudnnBackendDescriptor_t, Descriptor>(); }

std::string& last_message() {
  thread_local std::string message;
  return message;
}

template <typename Body>
cudnnStatus_t library_call(Body&& body) {
  Session session;
  try {
    body(session);
  } catch (const Refused& refused) {
    last_message() = refused.why;
    return refused.status;
  }
  return CUDNN_STATUS_SUCCESS;
}

Descriptor& need(cudnnBackendDescriptor_t handle) {
  const auto found = find_descriptor(handle);
  if (handle == nullptr) throw Refused{CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a descriptor is null"};
  demand(found != nullptr, "no such descriptor");
  return *found;
}

CudnnHandle& need(cudnnHandle_t handle) {
  const auto found = find_cudnn(handle);
  if (!found) throw Refused{CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "no such handle"};
  return *found;
}

struct Execution {
  std::shared_ptr<const TensorGraph> graph;
  std::map<std::int64_t, void*> pointers;
  Engine engine;
  int device = 0;
  void* workspace = nullptr;
};

void need_memory(const void* pointer, std::size_t bytes, int device, const char* what) {
  const Location location = machine().locate(pointer, bytes);
  if (location.home == Home::device && location.device == device) return;
  fatal("%s of cudnnBackendExecute, %zu bytes at %p, is not memory of device %d", what, bytes, pointer, device);
}

void check_memory(const Execution& e) {
  for (const auto& [id, pointer] : e.pointers) {
    need_memory(pointer, e.graph->tensors.at(id).bytes(), e.device, ("tensor " + std::to_string(id)).c_str());
  }
  if (e.engine.workspace() != 0) need_memory(e.workspace, e.engine.workspace(), e.device, "the workspace");
  for (const auto& operation : e.graph->operations) {
    const Tensor& output = e.graph->tensors.at(operation.output);
    if (output.is_virtual) continue;
    const auto* begin = static_cast<const std::byte*>(e.pointers.at(output.id));
    for (const auto& [id, pointer] : e.pointers) {
      const auto* other = static_cast<const std::byte*>(pointer);
      if (id == output.id || other >= begin + output.bytes()) continue;
      if (other + e.graph->tensors.at(id).bytes() <= begin) continue;
      fatal("tensors %d and %d of cudnnBackendExecute overlap and one is written", static_cast<int>(id),
            static_cast<int>(output.id));
    }
  }
}

Execution execution_of(const Descriptor& plan, const Descriptor& pack, int device) {
  demand(plan.finalized && plan.kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "the plan is none or not finalized");
  demand(pack.finalized && pack.kind == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "the pack is none or not finalized");
  Execution e{plan.graph, {}, plan.engine, device, nullptr};
  const auto ids = pack.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  std::vector<void*> pointers(ids.size());
  std::memcpy(pointers.data(), pack.attributes.at(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).bytes.data(),
              pointers.size() * sizeof(void*));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto found = e.graph->tensors.find(ids[i]);
    demand(found != e.graph->tensors.end() && !found->second.is_virtual,
           "the variant pack names a tensor that is virtual or not of the graph");
    if (reinterpret_cast<std::uintptr_t>(pointers[i]) % static_cast<std::uintptr_t>(found->second.alignment) != 0) {
      throw Refused{CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER, "a pointer is not aligned as its tensor says"};
    }
    e.pointers[ids[i]] = pointers[i];
  }
  for (const auto& [id, tensor] : e.graph->tensors) {
    demand(tensor.is_virtual || e.pointers.count(id) != 0, "the variant pack lacks a tensor of the graph");
  }
  if (pack.has(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)) {
    std::memcpy(&e.workspace, pack.attributes.at(CUDNN_ATTR_VARIANT_PACK_WORKSPACE).bytes.data(), sizeof(void*));
  }
  const bool aligned = reinterpret_cast<std::uintptr_t>(e.workspace) % 16 == 0;
  demand(e.engine.workspace() == 0 || (e.workspace != nullptr && aligned), "the plan needs an aligned workspace");
  return e;
}

void execute(Session& session, const CudnnHandle& handle, const Descriptor& plan, const Descriptor& pack) {
  const auto stream = find_stream(handle.stream);
  demand(stream && stream->device == handle.device && current_device() == handle.device,
         "the handle, its stream and the current device differ");
  const Execution execution = execution_of(plan, pack, handle.device);
  if (machine().fails(Call::convolution)) throw Refused{CUDNN_STATUS_EXECUTION_FAILED, "fail_next"};
  check_memory(execution);
  auto run = [execution] {
    check_memory(execution);
    if (const auto bytes = execution.engine.workspace(); bytes != 0) std::memset(execution.workspace, 0xFF, bytes);
    run_graph(*execution.graph, execution.pointers, execution.engine);
    ++machine().counts.convolutions;
  };
  const auto error = submit(session, stream, std::make_shared<DeviceWork>(1U << handle.device, std::move(run)));
  if (error != cudaSuccess) throw Refused{CUDNN_STATUS_EXECUTION_FAILED_CUDART, cudaGetErrorString(error)};
}

bool simulated_kind(cudnnBackendDescriptorType_t kind) {
  switch (kind) {
    case CUDNN_BACKEND_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR:
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::shared_ptr<CudnnHandle> find_cudnn(cudnnHandle_t handle) { return libraries().find(handle); }
std::shared_ptr<Descriptor> find_descriptor(cudnnBackendDescriptor_t handle) { return descriptors().find(handle); }

}  // namespace simulated

using namespace simulated;

extern "C" {

std::size_t cudnnGetVersion() { return CUDNN_VERSION; }

void cudnnGetLastErrorString(char* message, std::size_t size) {
  if (message != nullptr && size != 0) std::snprintf(message, size, "%s", last_message().c_str());
  last_message().clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return library_call([&](Session&) {
    if (machine().devices.empty()) throw Refused{CUDNN_STATUS_NOT_INITIALIZED, "there is no device"};
    demand(handle != nullptr, "there is nowhere to write the handle to");
    ++machine().library_objects;
    *handle = libraries().add(std::make_shared<CudnnHandle>(CudnnHandle{current_device(), nullptr}));
  });
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  return library_call([&](Session&) {
    need(handle);
    libraries().remove(handle);
    --machine().library_objects;
  });
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  return library_call([&](Session&) {
    CudnnHandle& library = need(handle);
    const auto found = find_stream(stream);
    if (!found || found->device != library.device) {
      throw Refused{CUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH, "the stream is none of the handle's device"};
    }
    library.stream = stream;
  });
}
cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return library_call([&](Session&) {
    demand(stream != nullptr, "there is nowhere to write the stream to");
    *stream = need(handle).stream;
  });
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t kind, cudnnBackendDescriptor_t* descriptor) {
  return library_call([&](Session&) {
    if (!simulated_kind(kind)) throw Refused{CUDNN_STATUS_NOT_SUPPORTED, "the descriptor's kind is not simulated"};
    if (descriptor == nullptr) throw Refused{CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a descriptor is null"};
    auto made = std::make_shared<Descriptor>();
    made->kind = kind;
    ++machine().library_objects;
    *descriptor = descriptors().add(std::move(made));
  });
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  return library_call([&](Session&) {
    need(descriptor);
    descriptors().remove(descriptor);
    --machine().library_objects;
  });
}
cudnnStatus_t cudnnBackendInitialize(cudnnBackendDescriptor_t) {
  return library_call([](Session&) { throw Refused{CUDNN_STATUS_NOT_SUPPORTED, "deprecated, and not simulated"}; });
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  return library_call([&](Session&) { finalize(need(descriptor)); });
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* elements) {
  return library_call([&](Session&) { set_attribute(need(descriptor), name, type, count, elements); });
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t requested, std::int64_t* count,
                                       void* elements) {
  return library_call([&](Session&) { get_attribute(need(descriptor), name, type, requested, count, elements); });
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  return library_call([&](Session& session) { execute(session, need(handle), need(plan), need(pack)); });
}
cudnnStatus_t cudnnBackendPopulateCudaGraph(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t,
                                            cudaGraph_t) {
  return library_call([](Session&) { throw Refused{CUDNN_STATUS_NOT_SUPPORTED, "not simulated"}; });
}

}  // extern "C"
