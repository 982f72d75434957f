#pragma once
// The simulated machine: its devices, their memory, all streams, events and captures, behind one lock.

#include <cuda_runtime.h>

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "simulated_cuda/control.hpp"
#include "simulated_cuda/handles.hpp"
#include "simulated_cuda/memory.hpp"
#include "simulated_cuda/stream.hpp"

namespace simulated {

/// What the environment says; see control.hpp.
struct Settings {
  std::vector<int> devices;  ///< of each visible device, its index on the machine
  std::size_t memory = std::size_t{1} << 30;
  bool eager = false;
  std::uint64_t order = 1;

  static Settings from_environment();
};

/// Memory of the host that devices may read and write.
struct Pinned {
  std::size_t bytes = 0;
  bool allocated = false;  ///< by the runtime; registered otherwise
  int device = 0;          ///< that was current
};

struct Device {
  int index = 0;  ///< among the visible ones
  int place = 0;  ///< on the machine
  DeviceMemory memory;
  std::shared_ptr<Stream> legacy;  ///< the default stream
};

/// Where memory is; nowhere: not live, or not in its full length.
enum class Home { device, pinned, pageable, nowhere };
struct Location {
  Home home = Home::nowhere;
  int device = 0;
};

struct Machine {
  Settings settings = Settings::from_environment();
  std::mutex mutex;
  std::condition_variable changed;  ///< work was given or has run
  std::vector<std::unique_ptr<Device>> devices;
  std::map<std::uintptr_t, Pinned> pinned;
  Handles<cudaStream_t, Stream> streams;
  Handles<cudaEvent_t, Event> events;
  Handles<cudaGraph_t, Graph> graphs;
  Handles<cudaGraphExec_t, GraphExec> executables;
  std::vector<std::shared_ptr<Stream>> busy;           ///< streams that were given work and have not run it all
  std::vector<std::shared_ptr<Capture>> captures;      ///< that have begun and not ended
  std::unordered_map<const void*, int> shared_opt_in;  ///< most dynamic shared memory of a kernel, where it was set
  std::uint64_t communicators = 0;                     ///< of NCCL, not destroyed yet
  std::uint64_t library_objects = 0;                   ///< of cublasLt and cuDNN, likewise
  Statistics counts;
  std::map<Call, int> failing;  ///< how many of these calls pass before one fails

  Machine();
  Location locate(const void* pointer, std::size_t bytes) const;
  bool inside_device(const void* pointer) const;
  bool holds_pinned(const void* pointer, std::size_t bytes) const;
  /// Whether a byte of these is pinned.
  bool touches_pinned(const void* pointer, std::size_t bytes) const;
  /// Whether fail_next was asked for this call.
  bool fails(Call call);
  /// Opens the memory of the devices whose bits are set and closes that of the others.
  void open(std::uint32_t devices_mask);
};

Machine& machine();

/// One call of an API: holds the lock, and closes the devices' memory at its end.
class Session {
 public:
  Session();  // aborts inside a host function of a stream
  ~Session() { machine().open(0); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::unique_lock<std::mutex> lock;
};

/// The device of this host thread; 0 where it never chose one.
int& current_device();
/// The last error of this host thread.
cudaError_t& last_error();
/// Whether this host thread runs a function of cudaLaunchHostFunc, which may call nothing of CUDA.
bool& inside_host_function();

/// Carries out one call of the runtime; its result is the thread's last error where it is one.
template <typename Body>
cudaError_t call(Body&& body) {
  const auto result = [&] {
    if (inside_host_function()) return cudaErrorNotPermitted;
    Session session;
    if (machine().devices.empty()) return cudaErrorNoDevice;
    return static_cast<cudaError_t>(body(session));
  }();
  if (result != cudaSuccess) last_error() = result;
  return result;
}

}  // namespace simulated
