#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/check.hpp"
#include "cuda/launch.hpp"
#include "cuda/pool.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cuda {

/// What a library or the driver can refuse so that work is done in a slower way.
enum class Fallback { product, convolution, engine, capture, pinning };

/// Keeps a text of each refusal. The first one of each kind is said at once, so that nothing becomes slower in silence;
/// of a network with many such layers, it is the only one that is said.
class Fallbacks {
 public:
  using Say = std::function<void(const std::string&)>;

  /// \param say is called with one line
  void set_say(Say say) { say_ = std::move(say); }
  /// \param text what was refused, and what is done instead
  void note(Fallback kind, const std::string& text) {
    if (!known_.insert(text).second) return;
    texts_.push_back(text);
    if (said_.insert(kind).second && say_) say_(text);
  }
  /// In the order in which they were noted.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  Say say_;
  std::set<Fallback> said_;
  std::set<std::string> known_;
  std::vector<std::string> texts_;
};

// RAII owners of CUDA's objects.

/// A stream that does not wait for the default stream.
class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream that other streams, and threads, can wait for.
class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  /// What is given to the stream from now on waits for the event.
  void hold(cudaStream_t stream) { check(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent"); }
  /// An event that was never recorded has happened.
  void wait() { check(cudaEventSynchronize(event_), "cudaEventSynchronize"); }
  bool happened() {
    const cudaError_t error = cudaEventQuery(event_);
    if (error == cudaErrorNotReady) return false;
    check(error, "cudaEventQuery");
    return true;
  }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// A recorded sequence of work that one call starts.
class GraphExecution {
 public:
  GraphExecution() = default;
  explicit GraphExecution(cudaGraphExec_t execution) : execution_(execution) {}
  ~GraphExecution() {
    if (execution_ != nullptr) cudaGraphExecDestroy(execution_);
  }
  GraphExecution(GraphExecution&& other) noexcept : execution_(std::exchange(other.execution_, nullptr)) {}
  GraphExecution& operator=(GraphExecution&& other) noexcept {
    std::swap(execution_, other.execution_);
    return *this;
  }

  explicit operator bool() const { return execution_ != nullptr; }
  void launch(cudaStream_t stream) { check(cudaGraphLaunch(execution_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t execution_ = nullptr;
};

/// A hash of a sequence of plain values.
class Signature {
 public:
  template <typename T>
  Signature& add(const T& value) {
    // Padding bytes would make equal values differ.
    static_assert(std::is_floating_point_v<T> || std::has_unique_object_representations_v<T>);
    return add_bytes(std::as_bytes(std::span(&value, 1)));
  }
  Signature& add_bytes(std::span<const std::byte> bytes);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0x9E3779B97F4A7C15;
};

/// A queue of kernels for a GPU, which run in order.
///
/// They are gathered until `submit`, and then started one by one, or all at once: a sequence that has come twice
/// before, with the same kernels, shapes and addresses, is recorded as a CUDA graph, and then costs a single launch.
/// Values that change from step to step (a learning rate, the examples' indices) must therefore not be arguments of a
/// kernel. They lie in memory that `stage` or `upload` fills, in two areas that are used in turn, at addresses that
/// depend only on the sequence.
///
/// Used by one thread at a time.
class Queue {
 public:
  /// \param pool of the device's memory, whose blocks are used in this queue's order \param raw where memory comes from
  /// \param fallbacks is told of sequences that cannot be recorded
  Queue(int device, Pool& pool, const RawMemory& raw, Fallbacks& fallbacks);
  ~Queue();

  /// Makes this queue's device the current one of the calling thread (cudaSetDevice).
  void use_device() const;

  /// Adds a command. \param signature of all that it depends on, except the contents of staged and uploaded memory
  void add(const Signature& signature, std::function<void(cudaStream_t)> command);

  /// Starts a kernel, whose parameters are numbers and pointers.
  template <typename... Parameters, typename... Arguments>
  void launch(void (*kernel)(Parameters...), const Grid& grid, Arguments... arguments) {
    Signature signature;
    signature.add(kernel).add(grid.blocks.x).add(grid.blocks.y).add(grid.threads.x).add(grid.threads.y);
    (signature.add(static_cast<Parameters>(arguments)), ...);
    add(signature, [=](cudaStream_t stream) {
      check(kernels::cuda::launch(kernel, grid, stream, static_cast<Parameters>(arguments)...), "a kernel's launch");
    });
  }

  /// Copies few values to the device, for the command that is added next. Do not allocate device memory in between:
  /// that submits the queue. \return the copy's address on the device
  template <typename T>
  const T* stage(std::span<const T> values) {
    return static_cast<const T*>(stage_bytes(std::as_bytes(values)));
  }
  template <typename T>
  const T* stage(const T& value) {
    return stage(std::span(&value, 1));
  }

  /// Copies many values to the device, by the copy engine while kernels run; few values are staged. The values must
  /// stay as they are until `submit` has returned. \return address, on the device, of a pointer to the copy
  template <typename T>
  const T* const* upload(std::span<const T> values) {
    const auto bytes = std::as_bytes(values);
    return stage(static_cast<const T*>(bytes.size() <= kStagedUpload ? stage_bytes(bytes) : upload_bytes(bytes)));
  }

  /// Starts what was added. Returns when uploads have arrived.
  void submit();
  /// Waits for all that was added.
  void synchronise();
  /// Waits for an event of this device.
  void wait(Event& event);
  /// See Device::set_wait.
  void set_wait(Device::Wait wait) { wait_ = std::move(wait); }
  cudaStream_t stream() { return stream_.get(); }

  /// Commands that were started one by one.
  std::int64_t launches() const { return launches_; }
  std::int64_t graph_launches() const { return graph_launches_; }
  /// Operations in the graphs that were launched.
  std::int64_t graph_operations() const { return graph_operations_; }
  std::int64_t refused_captures() const { return refused_captures_; }
  /// Seconds spent so far in `wait` and the functions that use it.
  double waited_seconds() const { return waited_seconds_; }

 private:
  static constexpr std::size_t kStagedUpload = std::size_t{64} << 10;
  /// A sequence that has come before.
  struct Sequence {
    std::uint64_t signature = 0;
    int times = 0;
    GraphExecution graph;         ///< where it could be recorded
    std::int64_t operations = 0;  ///< of the graph
  };
  /// The values of a submission that change from step to step; two areas alternate. A stream of its own copies them,
  /// while kernels of the submission before still run.
  struct Area {
    /// The device's memory for an upload.
    struct Place {
      void* memory = nullptr;
      std::size_t bytes = 0;
    };
    std::byte *plain = nullptr, *staged = nullptr;  ///< staged values: pinned memory, and their copy on the device
    std::vector<Place> places;
    std::size_t staged_bytes = 0, uploads = 0;  ///< of the submission that is gathered
    Event arrived, consumed;                    ///< of the last submission
    bool is_open = false;
  };

  Area& open_area();
  void send(Area& area);
  void close(Area& area);
  const void* stage_bytes(std::span<const std::byte> bytes);
  const void* upload_bytes(std::span<const std::byte> bytes);
  Sequence& sequence_of(std::uint64_t signature);
  void run(cudaStream_t stream);
  void capture(Sequence& sequence);
  std::string record(cudaGraph_t& graph);
  void wait_for(const Stream& stream);

  int device_;
  Pool& pool_;
  Fallbacks& fallbacks_;
  Device::Wait wait_;
  Stream stream_, copies_;
  Event end_;  ///< of what is waited for
  std::vector<std::function<void(cudaStream_t)>> commands_;
  Signature signature_;
  std::list<Sequence> sequences_;  ///< the last used first
  std::unordered_map<std::uint64_t, std::list<Sequence>::iterator> known_;
  Pool upload_memory_;  ///< its own, as uploads are not in the order in which kernels use pool_
  std::array<Area, 2> areas_;
  std::size_t area_ = 0;
  std::int64_t launches_ = 0, graph_launches_ = 0, graph_operations_ = 0, refused_captures_ = 0;
  double waited_seconds_ = 0;
};

}  // namespace unisono::kernels::cuda
