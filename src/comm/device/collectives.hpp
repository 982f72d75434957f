#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "unisono/comm/communicator.hpp"
#include "unisono/tensor/device.hpp"

namespace unisono::comm {

/// Collectives of a Communicator on memory of devices, one a rank. Where they are started, they are done, as far as
/// later work on the device can tell, when they were waited for.
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
  virtual void reduce_scatter_sum(std::span<float> values) = 0;
  virtual void all_gather(std::span<float> values) = 0;
  virtual void allreduce_weighted_mean(std::span<float> values, double weight) = 0;
  /// Starts what waits for the device: another collective is about to begin, on all ranks.
  virtual void flush() {}
};

/// Through plain memory, by a communicator below.
std::unique_ptr<DeviceCollectives> make_staged_collectives(Communicator& ranks, Device& device);

/// How ranks get collectives for a group of theirs. Collective over these.
using MakeCollectives = std::function<std::unique_ptr<DeviceCollectives>(Communicator& ranks, Device& device)>;
/// By NCCL, in the device's order; nccl/. Each rank has a device of its own. Groups that are made by one of these end
/// together where a rank fails.
MakeCollectives nccl_collectives();
/// "NCCL 2.28.9"; empty where it cannot be loaded, and then why not.
std::string nccl_version(std::string& missing);

}  // namespace unisono::comm
