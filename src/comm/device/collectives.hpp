#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "unisono/comm/communicator.hpp"
#include "unisono/comm/device.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::comm {

/// The collectives of a Communicator on device memory, with one device per rank. After the wait for one that was
/// started, work that is queued on the device sees its result.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;

  /// Memory of the device on which the collectives are fastest; its allocation is collective.
  virtual Allocator& memory() = 0;
  /// See Communicator::bucket_bytes.
  virtual Index bucket_bytes() const = 0;
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  virtual void allreduce_sum(std::span<float> values) = 0;
  virtual void allreduce_sum(std::span<double> values) = 0;
  virtual RequestPtr start_allreduce_sum(std::span<float> values) = 0;
  /// See Communicator::start_tree_sum.
  virtual RequestPtr start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) = 0;
  /// See Communicator::start_reduce_scatter_sum; the sums may be rounded otherwise than those of start_allreduce_sum.
  virtual void reduce_scatter_sum(std::span<float> values) = 0;
  virtual void all_gather(std::span<float> values) = 0;
  virtual void allreduce_weighted_mean(std::span<float> values, double weight) = 0;
  /// Starts sums that still wait for data from the device. Called on all ranks before they begin another collective.
  virtual void flush() {}
  /// Null: messages between two ranks are staged.
  virtual DeviceMessages* messages() { return nullptr; }
};

/// Staged through plain memory, with the collectives of `ranks`.
std::unique_ptr<DeviceCollectives> make_staged_collectives(Communicator& ranks, Device& device);

/// Makes the collectives of a group of ranks. Collective over the group.
using MakeCollectives = std::function<std::unique_ptr<DeviceCollectives>(Communicator& ranks, Device& device)>;
/// Makes collectives that NCCL runs on the device's stream (in nccl/). Each rank needs a device of its own. Where a
/// rank fails, all groups that one such function object has made are ended together.
MakeCollectives nccl_collectives();
/// "NCCL 2.28.9"; empty where it cannot be loaded. \param missing then set to the reason
std::string nccl_version(std::string& missing);

}  // namespace unisono::comm
