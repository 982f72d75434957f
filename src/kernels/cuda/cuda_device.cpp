#include "cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "cuda/check.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

/// Memory from the driver.
RawMemory raw_memory(int device) {
  return {.allocate = [device](std::size_t bytes) -> void* {
            check(cudaSetDevice(device), "cudaSetDevice");
            void* pointer = nullptr;
            const cudaError_t error = cudaMalloc(&pointer, bytes);
            if (error == cudaErrorMemoryAllocation) {
              cudaGetLastError();  // it is dealt with
              return nullptr;
            }
            check(error, "cudaMalloc");
            return pointer;
          },
          .release = [](void* pointer) { cudaFree(pointer); },
          .free_bytes =
              [] {
                std::size_t free = 0, total = 0;
                check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
                return free;
              }};
}

RawMemory raw_pinned_memory(int device) {
  return {.allocate = [device](std::size_t bytes) -> void* {
            check(cudaSetDevice(device), "cudaSetDevice");
            void* pointer = nullptr;
            const cudaError_t error = cudaMallocHost(&pointer, bytes);
            if (error == cudaSuccess) return pointer;
            cudaGetLastError();  // it is dealt with
            throw DeviceError(fmt::format("{:.1f} MiB of pinned memory cannot be allocated: {}",
                                          static_cast<double>(bytes) / (1 << 20), cudaGetErrorString(error)));
          },
          .release = [](void* pointer) { cudaFreeHost(pointer); },
          .free_bytes = {}};
}

/// Makes a device the calling thread's current one, for which streams and handles of libraries are created.
int made_current(int device) {
  check(cudaSetDevice(device), "cudaSetDevice");
  return device;
}

/// A copy whose end is known by an event.
class EventCopy final : public StartedCopy {
 public:
  EventCopy(Queue& queue, cudaStream_t stream) : queue_(queue) { event_.record(stream); }
  bool done() override { return event_.happened(); }
  void wait() override { queue_.wait(event_); }

 private:
  Queue& queue_;
  Event event_;
};

}  // namespace

void* DeviceMemory::allocate(std::size_t bytes) {
  queue_.submit();  // queued work that still reads memory that was deallocated comes first
  queue_.use_device();
  void* const pointer = pool_.allocate(bytes);
  check(cudaMemsetAsync(pointer, 0, bytes, queue_.stream()), "cudaMemsetAsync");
  return pointer;
}

void DeviceMemory::copy(View from, MutableView to) {
  if (from.empty()) return;
  queue_.synchronise();  // watches other ranks while it waits; a copy of memory that is not pinned does not
  check(cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyDefault, queue_.stream()),
        "cudaMemcpyAsync");
  queue_.synchronise();
}

PinnedMemory::PinnedMemory(int device) : pool_(raw_pinned_memory(device)) {}

void* PinnedMemory::allocate(std::size_t bytes) {
  const std::scoped_lock lock(mutex_);
  void* const pointer = pool_.allocate(bytes);
  std::memset(pointer, 0, bytes);
  return pointer;
}

void PinnedMemory::deallocate(void* pointer) noexcept {
  const std::scoped_lock lock(mutex_);
  pool_.deallocate(pointer);
}

CudaDevice::CudaDevice(int number)
    : number_(made_current(number)),
      pool_(raw_memory(number)),
      queue_(number, pool_, raw_memory(number), fallbacks_),
      memory_(pool_, queue_),
      pinned_(number) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, number), "cudaGetDeviceProperties");
  name_ = properties.name;
  multiprocessors_ = properties.multiProcessorCount;
  identity_ = identity_of(number);
}

void CudaDevice::set_kept_bytes(std::size_t bytes) {
  pool_.set_remark(
      fmt::format(" ({:.1f} MiB of that are examples, which data.reader = \"streaming\" leaves in plain memory)",
                  static_cast<double>(bytes) / (1 << 20)));
}

bool CudaDevice::owns(const void* pointer) const {
  queue_.use_device();  // or a new thread would use another device
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeDevice && attributes.device == number_;
}

std::unique_ptr<StartedCopy> CudaDevice::start_download(const void* from, void* to, std::size_t bytes) {
  queue_.submit();
  queue_.use_device();
  Event ready;
  ready.record(queue_.stream());
  ready.hold(downloads_.get());
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, downloads_.get()), "cudaMemcpyAsync");
  return std::make_unique<EventCopy>(queue_, downloads_.get());
}

std::unique_ptr<StartedCopy> CudaDevice::start_upload(const void* from, void* to, std::size_t bytes) {
  queue_.submit();
  queue_.use_device();
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, queue_.stream()), "cudaMemcpyAsync");
  return std::make_unique<EventCopy>(queue_, queue_.stream());
}

void CudaDevice::pin(void* pointer, std::size_t bytes) {
  queue_.use_device();
  if (bytes == 0) return;
  const cudaError_t error = cudaHostRegister(pointer, bytes, cudaHostRegisterDefault);
  if (error == cudaSuccess) return;
  cudaGetLastError();  // it is dealt with
  fallbacks_.note(Fallback::pinning,
                  fmt::format("{:.1f} MiB of plain memory cannot be pinned ({}): copies from and to it are slower, and "
                              "the host waits for them; a higher limit of locked memory (ulimit -l) may help",
                              static_cast<double>(bytes) / (1 << 20), cudaGetErrorString(error)));
}

void CudaDevice::unpin(void* pointer) noexcept {
  if (cudaHostUnregister(pointer) != cudaSuccess) cudaGetLastError();
}

void* CudaDevice::submit() {
  queue_.submit();
  queue_.use_device();
  return queue_.stream();
}

}  // namespace unisono::kernels::cuda

namespace unisono::kernels {
namespace {

constexpr const char* kWayOut = "or set device = \"cpu\"";

std::string missing(cudaError_t error) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    return fmt::format("no NVIDIA driver is loaded on this machine (libcuda.so); install one that knows CUDA {}, {}",
                       CUDART_VERSION / 1000, kWayOut);
  }
  if (error == cudaErrorInsufficientDriver) {
    return fmt::format("the NVIDIA driver knows CUDA {}.{}, but this program was built with CUDA {}.{}; update it, {}",
                       driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, kWayOut);
  }
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return fmt::format("this process sees no GPU{}; {}{}",
                       visible == nullptr ? "" : fmt::format(" (CUDA_VISIBLE_DEVICES={})", visible),
                       visible == nullptr ? "check nvidia-smi, " : "ask for one, ", kWayOut);
  }
  return fmt::format("the GPUs cannot be used: {} ({}); check nvidia-smi, {}", cudaGetErrorString(error),
                     cudaGetErrorName(error), kWayOut);
}

}  // namespace

CudaDevices find_cuda_devices() {
  CudaDevices found;
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();  // it is told here
  if (error != cudaSuccess || count == 0) {
    found.missing = missing(error);
    return found;
  }
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, number) != cudaSuccess) continue;
    found.devices.push_back({.number = number, .name = properties.name, .identity = cuda::identity_of(number)});
  }
  return found;
}

std::string cuda::identity_of(int device) {
  std::array<char, 32> bus{};
  cuda::check(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), device), "cudaDeviceGetPCIBusId");
  return bus.data();
}

}  // namespace unisono::kernels
