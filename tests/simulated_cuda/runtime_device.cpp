// Devices and what they say of themselves: figures of an H100, with the memory that the environment gives them.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "simulated_cuda/machine.hpp"

namespace simulated {
namespace {

constexpr int version = CUDART_VERSION;
constexpr int multiprocessors = 132;
constexpr int most_threads = 1024;
constexpr int usual_shared_bytes = 48 * 1024;
constexpr int most_shared_bytes = 227 * 1024;

Device* find_device(int index) {
  auto& devices = machine().devices;
  return index >= 0 && index < static_cast<int>(devices.size()) ? devices[static_cast<std::size_t>(index)].get()
                                                                : nullptr;
}

void fill(cudaDeviceProp& p, const Device& device) {
  p = {};
  std::snprintf(p.name, sizeof p.name, "simulated device %d", device.place);
  std::snprintf(p.uuid.bytes, sizeof p.uuid.bytes, "simulated%d", device.place);
  p.totalGlobalMem = device.memory.capacity();
  p.sharedMemPerBlock = usual_shared_bytes;
  p.sharedMemPerBlockOptin = most_shared_bytes;
  p.sharedMemPerMultiprocessor = most_shared_bytes + 1024;
  p.reservedSharedMemPerBlock = 1024;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.memPitch = 0x7FFFFFFF;
  p.maxThreadsPerBlock = most_threads;
  std::copy_n(std::initializer_list<int>{1024, 1024, 64}.begin(), 3, p.maxThreadsDim);
  std::copy_n(std::initializer_list<int>{0x7FFFFFFF, 65535, 65535}.begin(), 3, p.maxGridSize);
  p.totalConstMem = 65536;
  p.major = 9;
  p.minor = 0;
  p.multiProcessorCount = multiprocessors;
  p.canMapHostMemory = p.concurrentKernels = p.ECCEnabled = p.unifiedAddressing = 1;
  p.pciBusID = device.place + 1;
  p.asyncEngineCount = 3;
  p.memoryBusWidth = 5120;
  p.l2CacheSize = 50 << 20;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.streamPrioritiesSupported = p.hostRegisterSupported = p.canUseHostPointerForRegisteredMem = 1;
}

cudaError_t attribute(int* value, cudaDeviceAttr which, int index) {
  const Device* device = find_device(index);
  if (device == nullptr) return cudaErrorInvalidDevice;
  if (value == nullptr) return cudaErrorInvalidValue;
  cudaDeviceProp p;
  fill(p, *device);
  switch (which) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxBlockDimX:
      *value = p.maxThreadsDim[0];
      break;
    case cudaDevAttrMaxBlockDimY:
      *value = p.maxThreadsDim[1];
      break;
    case cudaDevAttrMaxBlockDimZ:
      *value = p.maxThreadsDim[2];
      break;
    case cudaDevAttrMaxGridDimX:
      *value = p.maxGridSize[0];
      break;
    case cudaDevAttrMaxGridDimY:
      *value = p.maxGridSize[1];
      break;
    case cudaDevAttrMaxGridDimZ:
      *value = p.maxGridSize[2];
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = usual_shared_bytes;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = most_shared_bytes;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = most_shared_bytes + 1024;
      break;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      break;
    case cudaDevAttrPciBusId:
      *value = p.pciBusID;
      break;
    case cudaDevAttrPciDeviceId:
      *value = p.pciDeviceID;
      break;
    case cudaDevAttrPciDomainId:
      *value = p.pciDomainID;
      break;
    case cudaDevAttrClockRate:
      *value = 1'980'000;
      break;  // kHz
    case cudaDevAttrMemoryClockRate:
      *value = 2'619'000;
      break;  // kHz
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = p.memoryBusWidth;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = 1;
      break;
    case cudaDevAttrConcurrentKernels:
      *value = 1;
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = p.asyncEngineCount;
      break;
    case cudaDevAttrIntegrated:
      *value = 0;
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = 0;
      break;
    case cudaDevAttrManagedMemory:
      *value = 0;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace simulated

using namespace simulated;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  *count = 0;
  return call([&](Session&) {
    *count = static_cast<int>(machine().devices.size());
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int device) {
  return call([&](Session&) {
    if (find_device(device) == nullptr) return cudaErrorInvalidDevice;
    current_device() = device;
    return cudaSuccess;
  });
}
cudaError_t cudaGetDevice(int* device) {
  return call([&](Session&) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = current_device();
    return cudaSuccess;
  });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int index) {
  return call([&](Session&) {
    const Device* device = find_device(index);
    if (device == nullptr) return cudaErrorInvalidDevice;
    if (properties == nullptr) return cudaErrorInvalidValue;
    fill(*properties, *device);
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int device) {
  return call([&](Session&) { return attribute(value, which, device); });
}
cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int index) {
  return call([&](Session&) {
    const Device* device = find_device(index);
    if (device == nullptr) return cudaErrorInvalidDevice;
    if (text == nullptr || length < 13) return cudaErrorInvalidValue;
    std::snprintf(text, static_cast<std::size_t>(length), "0000:%02X:00.0", device->place + 1);
    return cudaSuccess;
  });
}
cudaError_t cudaDriverGetVersion(int* result) {
  if (result == nullptr) return last_error() = cudaErrorInvalidValue;
  *result = version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* result) {
  if (result == nullptr) return last_error() = cudaErrorInvalidValue;
  *result = version;
  return cudaSuccess;
}

}  // extern "C"
