// Memory of devices, and pinned memory of the host.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "simulated_cuda/machine.hpp"

namespace simulated {
namespace {

Device& device() { return *machine().devices[static_cast<std::size_t>(current_device())]; }

cudaError_t allocate(void** pointer, std::size_t bytes) {
  Machine& m = machine();
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (const auto error = forbidden_while_capturing(); error != cudaSuccess) return error;
  if (m.fails(Call::allocation)) return cudaErrorMemoryAllocation;
  if (bytes == 0) return cudaSuccess;
  m.open(1U << device().index);
  *pointer = device().memory.allocate(bytes);
  if (*pointer == nullptr) return cudaErrorMemoryAllocation;
  ++m.counts.allocations;
  return cudaSuccess;
}

/// As CUDA, waits for all work of the device.
cudaError_t free_device(Session& session, void* pointer) {
  Machine& m = machine();
  if (const auto error = forbidden_while_capturing(); error != cudaSuccess) return error;
  if (pointer == nullptr) return cudaSuccess;
  for (const auto& owner : m.devices) {
    if (!owner->memory.inside(pointer)) continue;
    drain_device(session, owner->index);
    ++m.counts.host_synchronisations;
    m.open(1U << owner->index);
    if (!owner->memory.free(pointer)) return cudaErrorInvalidValue;
    ++m.counts.frees;
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t allocate_pinned(void** pointer, std::size_t bytes, unsigned flags) {
  Machine& m = machine();
  constexpr unsigned known = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if (pointer == nullptr || (flags & ~known) != 0) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (const auto error = forbidden_while_capturing(); error != cudaSuccess) return error;
  if (m.fails(Call::pinned_allocation)) return cudaErrorMemoryAllocation;
  if (bytes == 0) return cudaSuccess;
  *pointer = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (*pointer == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*pointer, 0xFF, bytes);
  m.pinned[reinterpret_cast<std::uintptr_t>(*pointer)] = {bytes, true, current_device()};
  ++m.counts.pinned_allocations;
  return cudaSuccess;
}

cudaError_t forget_pinned(void* pointer, bool allocated) {
  Machine& m = machine();
  if (const auto error = forbidden_while_capturing(); error != cudaSuccess) return error;
  const auto found = m.pinned.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == m.pinned.end() || found->second.allocated != allocated) {
    return allocated ? cudaErrorInvalidValue : cudaErrorHostMemoryNotRegistered;
  }
  m.pinned.erase(found);
  if (allocated) std::free(pointer);
  return cudaSuccess;
}

cudaError_t register_host(void* pointer, std::size_t bytes, unsigned flags) {
  Machine& m = machine();
  constexpr unsigned known = cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly;
  if (pointer == nullptr || bytes == 0 || (flags & ~known) != 0) return cudaErrorInvalidValue;
  if (const auto error = forbidden_while_capturing(); error != cudaSuccess) return error;
  if (m.inside_device(pointer)) return cudaErrorInvalidValue;
  const auto begin = reinterpret_cast<std::uintptr_t>(pointer);
  const auto next = m.pinned.lower_bound(begin);
  const bool over_next = next != m.pinned.end() && next->first < begin + bytes;
  const bool in_previous = next != m.pinned.begin() && std::prev(next)->first + std::prev(next)->second.bytes > begin;
  if (over_next || in_previous) return cudaErrorHostMemoryAlreadyRegistered;
  if (m.fails(Call::pinned_allocation)) return cudaErrorMemoryAllocation;
  m.pinned[begin] = {bytes, false, current_device()};
  ++m.counts.pinned_allocations;
  return cudaSuccess;
}

cudaError_t attributes_of(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return cudaErrorInvalidValue;
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = cudaInvalidDeviceId;
  const Location location = machine().locate(pointer, 1);
  void* const address = const_cast<void*>(pointer);
  if (location.home == Home::device) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->device = location.device;
    attributes->devicePointer = address;
  } else if (location.home == Home::pinned) {
    const auto next = machine().pinned.upper_bound(reinterpret_cast<std::uintptr_t>(pointer));
    attributes->type = cudaMemoryTypeHost;
    attributes->device = std::prev(next)->second.device;
    attributes->devicePointer = attributes->hostPointer = address;
  } else if (location.home == Home::pageable) {
    attributes->hostPointer = address;
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace simulated

using namespace simulated;

extern "C" {

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return call([&](Session&) { return allocate(pointer, bytes); });
}
cudaError_t cudaFree(void* pointer) {
  return call([&](Session& session) { return free_device(session, pointer); });
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call([&](Session&) {
    if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
    *free = device().memory.free_bytes();
    *total = device().memory.capacity();
    return cudaSuccess;
  });
}
cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return call([&](Session&) { return allocate_pinned(pointer, bytes, cudaHostAllocDefault); });
}
cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  return call([&](Session&) { return allocate_pinned(pointer, bytes, flags); });
}
cudaError_t cudaFreeHost(void* pointer) {
  return call([&](Session&) { return pointer == nullptr ? cudaSuccess : forget_pinned(pointer, true); });
}
cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  return call([&](Session&) { return register_host(pointer, bytes, flags); });
}
cudaError_t cudaHostUnregister(void* pointer) {
  return call([&](Session&) { return forget_pinned(pointer, false); });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  return call([&](Session&) { return attributes_of(attributes, pointer); });
}

}  // extern "C"
