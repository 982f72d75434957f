#pragma once

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <optional>

#include "device/collectives.hpp"

namespace unisono::comm {

/// Device memory with a mirror of the same length in memory of the ranks below, so that spans at the same place of the
/// same allocation on all ranks are there at the same place, too: in a shared window these are summed where they are.
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
  Allocator& plain_;  ///< the mirrors'
  Device& device_;
  std::map<const std::byte*, Mirror> mirrors_;  ///< by where the device memory begins
};

/// Plain memory beside a segment of device memory, for one operation.
class Stage {
 public:
  /// \param memory may be null: then no memory is mirrored
  Stage(Device& device, const MirroredMemory* memory, std::span<std::byte> there);

  std::span<std::byte> plain() const { return {plain_, there_.size()}; }
  void start_download();
  void start_upload();
  bool copied() { return copy_->done(); }
  void wait_for_copy();

 private:
  Device& device_;
  std::span<std::byte> there_;
  Buffer own_;  ///< where there is no mirror
  std::byte* plain_;
  std::unique_ptr<StartedCopy> copy_;
};

class StagedSum;

class StagedCollectives final : public DeviceCollectives {
 public:
  StagedCollectives(Communicator& ranks, Device& device) : ranks_(ranks), device_(device), memory_(ranks, device) {}
  ~StagedCollectives() override;

  Allocator& memory() override { return memory_; }
  /// Each costs two copies and the ranks' meeting.
  Index bucket_bytes() const override { return std::max(Index{4} << 20, ranks_.bucket_bytes()); }
  void broadcast(std::span<std::byte> bytes, int root) override;
  void allreduce_sum(std::span<float> values) override;
  void allreduce_sum(std::span<double> values) override;
  RequestPtr start_allreduce_sum(std::span<float> values) override;
  void reduce_scatter_sum(std::span<float> values) override;
  void all_gather(std::span<float> values) override;
  void allreduce_weighted_mean(std::span<float> values, double weight) override;
  void flush() override;

  // For its requests.

  /// Starts the sums whose values have come from the device, in order; up to this one, or with null to the last, it
  /// waits for them.
  void advance(const StagedSum* up_to, bool waits);
  Communicator& ranks() { return ranks_; }
  /// Keeps what an upload reads until it is done.
  void keep(Stage stage);

 private:
  template <typename T, typename Act>
  void through_plain_memory(std::span<T> values, Act act);

  Communicator& ranks_;
  Device& device_;
  MirroredMemory memory_;
  std::deque<StagedSum*> downloading_;
  std::list<Stage> uploading_;
};

}  // namespace unisono::comm
