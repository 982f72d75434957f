#pragma once

#include "device/collectives.hpp"
#include "unisono/comm/device.hpp"

namespace unisono::comm {

/// See make_device_communicator. Collectives on plain memory are passed on to the wrapped communicator.
class DeviceCommunicator final : public Communicator {
 public:
  /// Collective. \param owned `ranks`, if this object is to own it; else null
  DeviceCommunicator(Communicator& ranks, std::unique_ptr<Communicator> owned, Device& device, MakeCollectives make);

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  int node_rank() const override { return ranks_.node_rank(); }
  int node_size() const override { return ranks_.node_size(); }
  int node() const override { return ranks_.node(); }
  std::string host() const override { return ranks_.host(); }
  void set_step(std::int64_t step) override { ranks_.set_step(step); }

  void barrier() override { below().barrier(); }
  void node_barrier() override { below().node_barrier(); }
  void broadcast(std::span<std::byte> bytes, int root) override;
  void allreduce_sum(std::span<float> values) override;
  void allreduce_sum(std::span<double> values) override;
  void allreduce_sum(std::span<std::int64_t> values) override { below().allreduce_sum(values); }
  void allreduce_max(std::span<std::int64_t> values) override { below().allreduce_max(values); }
  void allreduce_max(std::span<double> values) override { below().allreduce_max(values); }
  RequestPtr start_allreduce_sum(std::span<float> values) override;
  RequestPtr start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) override;
  RequestPtr start_reduce_scatter_sum(std::span<float> values) override;
  RequestPtr start_all_gather(std::span<float> values) override;
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override {
    return below().all_gather_bytes(bytes);
  }
  void allreduce_weighted_mean(std::span<float> values, double weight) override;
  Index bucket_bytes() const override { return collectives_->bucket_bytes(); }

  void send(std::span<const std::byte> bytes, int peer, int tag) override { start_send(bytes, peer, tag)->wait(); }
  void receive(std::span<std::byte> bytes, int peer, int tag) override { start_receive(bytes, peer, tag)->wait(); }
  RequestPtr start_send(std::span<const std::byte> bytes, int peer, int tag) override;
  RequestPtr start_receive(std::span<std::byte> bytes, int peer, int tag) override;
  std::vector<std::size_t> wait_any(std::span<Request* const> messages, const std::function<bool()>& enough) override;
  void watch(std::string_view name, const std::function<bool()>& done) override { ranks_.watch(name, done); }

  DeviceMessages* messages() { return collectives_->messages(); }

  std::unique_ptr<Communicator> split(int color, int key) override;
  std::unique_ptr<Communicator> alone() override;
  Allocator& shared_allocator() override { return collectives_->memory(); }
  bool shares_memory() const override { return ranks_.shares_memory(); }
  std::shared_ptr<std::byte> allocate_on_node(std::size_t bytes) override { return below().allocate_on_node(bytes); }

 private:
  /// The wrapped communicator, for one of its collectives. Before that, all ranks start the same sums that are pending.
  Communicator& below() {
    collectives_->flush();
    return ranks_;
  }
  template <typename T>
  /// Whether the values lie in device memory.
  bool is_there(std::span<T> values) const {
    return !values.empty() && device_.owns(values.data());
  }

  std::unique_ptr<Communicator> owned_;
  Communicator& ranks_;
  Device& device_;
  MakeCollectives make_;
  std::unique_ptr<DeviceCollectives> collectives_;
};

}  // namespace unisono::comm
