#pragma once

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <optional>

#include "device/collectives.hpp"

namespace unisono::comm {

/// Device memory whose allocations each have a mirror of the same length in the wrapped communicator's
/// shared_allocator. The same span of the same allocation has the same place in the mirrors of all ranks, so that these
/// are summed directly in a shared window.
class MirroredMemory final : public Allocator {
 public:
  MirroredMemory(Communicator& ranks, Device& device) : plain_(ranks.shared_allocator()), device_(device) {}
  void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer) noexcept override;
  void copy(View from, MutableView to) override { device_.memory().copy(from, to); }
  bool is_plain() const override { return false; }

  /// The mirror of device memory; null where it has none.
  std::byte* mirror_of(const std::byte* there) const;

 private:
  struct Mirror {
    std::byte* memory;
    std::size_t bytes;
  };
  Allocator& plain_;  ///< allocates the mirrors
  Device& device_;
  std::map<const std::byte*, Mirror> mirrors_;  ///< by the address of the device memory
};

/// A staging buffer in plain memory for a segment of device memory, for one operation.
class Stage {
 public:
  /// \param memory where the segment's mirror is looked up; null: it has none
  Stage(Device& device, const MirroredMemory* memory, std::span<std::byte> there);

  std::span<std::byte> plain() const { return {plain_, there_.size()}; }
  void start_download();
  void start_upload();
  bool copied() { return copy_->done(); }
  void wait_for_copy();

 private:
  Device& device_;
  std::span<std::byte> there_;
  Buffer own_;  ///< the buffer where there is no mirror
  std::byte* plain_;
  std::unique_ptr<StartedCopy> copy_;
};

class StagedSum;

class StagedCollectives final : public DeviceCollectives {
 public:
  StagedCollectives(Communicator& ranks, Device& device) : ranks_(ranks), device_(device), memory_(ranks, device) {}
  ~StagedCollectives() override;

  Allocator& memory() override { return memory_; }
  /// At least 4 MiB: each allreduce costs two copies and a synchronisation of the ranks.
  Index bucket_bytes() const override { return std::max(Index{4} << 20, ranks_.bucket_bytes()); }
  void broadcast(std::span<std::byte> bytes, int root) override;
  void allreduce_sum(std::span<float> values) override;
  void allreduce_sum(std::span<double> values) override;
  RequestPtr start_allreduce_sum(std::span<float> values) override;
  RequestPtr start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) override;
  void reduce_scatter_sum(std::span<float> values) override;
  void all_gather(std::span<float> values) override;
  void allreduce_weighted_mean(std::span<float> values, double weight) override;
  void flush() override;

  // For its requests.

  /// Starts, in order, the sums whose values have been copied from the device. With `waits`, waits for the values of
  /// those up to `up_to`, or of all where that is null.
  void advance(const StagedSum* up_to, bool waits);
  Communicator& ranks() { return ranks_; }
  /// Keeps a staging buffer until its upload is done.
  void keep(Stage stage);

 private:
  RequestPtr start(std::span<const std::span<float>> vectors, const TreeSum* order);
  template <typename T, typename Act>
  void through_plain_memory(std::span<T> values, Act act);

  Communicator& ranks_;
  Device& device_;
  MirroredMemory memory_;
  std::deque<StagedSum*> downloading_;
  std::list<Stage> uploading_;
};

}  // namespace unisono::comm
