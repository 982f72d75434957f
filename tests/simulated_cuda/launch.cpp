// Kernel launches and host functions.
#include <cmath>

#include "simulated_cuda/kernel.hpp"
#include "simulated_cuda/machine.hpp"

namespace simulated {
namespace {

constexpr std::size_t usual_shared_bytes = 48 * 1024;
constexpr int most_shared_bytes = 227 * 1024;

bool fits(const Grid& grid) {
  const dim3& b = grid.blocks;
  const dim3& t = grid.threads;
  if (b.x == 0 || b.y == 0 || b.z == 0 || t.x == 0 || t.y == 0 || t.z == 0) return false;
  if (b.x > 0x7FFFFFFFU || b.y > 65535 || b.z > 65535) return false;
  return t.x <= 1024 && t.y <= 1024 && t.z <= 64 && t.x * t.y * t.z <= 1024;
}

/// A kernel may point to memory of its device and to pinned memory, as it is when the kernel runs.
void check_pointers(const Launch& launch, int device) {
  for (std::size_t i = 0; i < launch.pointers.size(); ++i) {
    const void* pointer = launch.pointers[i];
    if (pointer == nullptr) continue;
    const Location location = machine().locate(pointer, 0);
    if (location.home == Home::pinned || (location.home == Home::device && location.device == device)) continue;
    const char* what = location.home == Home::pageable ? "pageable host memory"
                       : location.home == Home::device ? "memory of another device"
                                                       : "device memory that is not allocated";
    fatal("pointer %zu among a kernel's arguments, %p, is %s; the kernel's parameters: %s", i + 1, pointer, what,
          launch.types);
  }
}

class HostFunction : public Work {
 public:
  HostFunction(cudaHostFn_t function, void* data) : function_(function), data_(data) {}
  Progress run(Session& session, void*) const override {
    machine().open(0);
    session.lock.unlock();
    inside_host_function() = true;
    function_(data_);
    inside_host_function() = false;
    session.lock.lock();
    return {};
  }

 private:
  cudaHostFn_t function_;
  void* data_;
};

cudaError_t launch_kernel(Session& session, Launch&& launch, cudaStream_t handle) {
  Machine& m = machine();
  const auto stream = find_stream(handle);
  if (!stream || stream->device != current_device()) return cudaErrorInvalidResourceHandle;
  if (!fits(launch.grid)) return cudaErrorInvalidConfiguration;
  const auto opt_in = m.shared_opt_in.find(launch.kernel);
  const std::size_t allowed =
      opt_in == m.shared_opt_in.end() ? usual_shared_bytes : static_cast<std::size_t>(opt_in->second);
  if (launch.grid.shared_bytes > std::max(allowed, usual_shared_bytes)) return cudaErrorInvalidValue;
  if (m.fails(Call::launch)) return cudaErrorLaunchOutOfResources;
  const int device = stream->device;
  auto run = [launch = std::move(launch), device] {
    check_pointers(launch, device);
    run_grid(launch.grid, machine().settings.order);
    ++machine().counts.kernels;
  };
  return submit(session, stream, std::make_shared<DeviceWork>(1U << device, std::move(run)));
}

cudaError_t set_attribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) {
    return value >= -1 && value <= 100 ? cudaSuccess : cudaErrorInvalidValue;
  }
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorInvalidValue;
  if (value < 0 || value > most_shared_bytes) return cudaErrorInvalidValue;
  machine().shared_opt_in[function] = value;
  return cudaSuccess;
}

}  // namespace

cudaError_t submit_kernel(Launch launch, cudaStream_t stream) {
  return call([&](Session& session) { return launch_kernel(session, std::move(launch), stream); });
}

}  // namespace simulated

using namespace simulated;

extern "C" {

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return call([&](Session& session) {
    if (function == nullptr) return cudaErrorInvalidValue;
    return submit(session, stream, std::make_shared<HostFunction>(function, data));
  });
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return call([&](Session&) { return set_attribute(function, attribute, value); });
}

// glibc declares it and keeps it to itself.
float __expf(float x) noexcept { return std::exp(x); }

}  // extern "C"
