#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "cuda/check.hpp"
#include "cuda/handles.hpp"
#include "cuda/launch.hpp"
#include "cuda/pool.hpp"
#include "unisono/tensor/device.hpp"

namespace unisono::kernels::cuda {

/// A number for a sequence of plain values.
class Signature {
 public:
  template <typename T>
  Signature& add(const T& value) {
    // Bytes that are no part of the value would make equal ones differ.
    static_assert(std::is_floating_point_v<T> || std::has_unique_object_representations_v<T>);
    return add_bytes(std::as_bytes(std::span(&value, 1)));
  }
  Signature& add_bytes(std::span<const std::byte> bytes);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0x9E3779B97F4A7C15;
};

/// Kernels on their way to a GPU, in order.
///
/// They are gathered until `submit`, and then started one after the other, or all at once: a sequence that has come
/// twice before, with the same kernels, shapes and addresses, is recorded as a CUDA graph, and from then on costs a
/// single launch. What changes from step to step (a learning rate, the examples' numbers) must therefore not be an
/// argument but lie in memory that `stage` or `upload` fill: of two areas in turn, in which their addresses depend on
/// the sequence alone.
///
/// Used by one thread at a time.
class Queue {
 public:
  /// \param pool of the device's memory, whose blocks are used in this queue's order \param raw where that comes from
  Queue(int device, Pool& pool, const RawMemory& raw);
  ~Queue();

  /// Makes this queue's device the calling thread's: CUDA remembers one for each.
  void use_device() const;

  /// \param signature of all that the command depends on, but for what staged memory holds
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

  /// A copy of few values on the device, for the command that is added next: whoever allocates memory, which submits,
  /// does so before. \return its address there
  template <typename T>
  const T* stage(std::span<const T> values) {
    return static_cast<const T*>(stage_bytes(std::as_bytes(values)));
  }
  template <typename T>
  const T* stage(const T& value) {
    return stage(std::span(&value, 1));
  }

  /// A copy of many values, made by the copy engine while kernels run; few are staged. The values must stay as they are
  /// until `submit` has returned. \return where the device finds the address of the copy
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

  std::int64_t graph_launches() const { return graph_launches_; }
  /// So far, in `wait` and what uses it.
  double waited_seconds() const { return waited_seconds_; }

 private:
  static constexpr std::size_t kStagedUpload = std::size_t{64} << 10;
  /// A sequence that has come before.
  struct Sequence {
    std::uint64_t signature = 0;
    int times = 0;
    GraphExecution graph;  ///< where it could be recorded
  };
  /// What one of every two submissions has that changes from step to step. It is copied by a stream of its own, while
  /// kernels of the submission before still run.
  struct Area {
    /// Of an upload.
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
  GraphExecution capture();
  void wait_for(const Stream& stream);

  int device_;
  Pool& pool_;
  Device::Wait wait_;
  Stream stream_, copies_;
  Event end_;  ///< of what is waited for
  std::vector<std::function<void(cudaStream_t)>> commands_;
  Signature signature_;
  std::list<Sequence> sequences_;  ///< the last used first
  std::unordered_map<std::uint64_t, std::list<Sequence>::iterator> known_;
  Pool upload_memory_;  ///< apart: the copy engine does not keep to the order in which kernels use the other's blocks
  std::array<Area, 2> areas_;
  std::size_t area_ = 0;
  std::int64_t graph_launches_ = 0;
  double waited_seconds_ = 0;
};

}  // namespace unisono::kernels::cuda
