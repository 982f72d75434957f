#pragma once

#include <memory>
#include <string>

#include "unisono/comm/communicator.hpp"
#include "world.hpp"

namespace unisono::comm::threads {

/// A rank that is a thread of this process. Whoever arrives last at a collective carries it out for all, under the
/// world's lock: simple, and clean for the thread sanitizer. For tests, and for a rank that is alone.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_->size(); }
  int node_rank() const override { return group_->place(rank_).number; }
  int node_size() const override { return group_->node_of(rank_).size(); }
  int node() const override { return group_->place(rank_).node; }
  std::string host() const override;
  void set_step(std::int64_t step) override;

  void barrier() override;
  void node_barrier() override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  void allreduce_sum(std::span<float> values) override;
  void allreduce_sum(std::span<double> values) override;
  void allreduce_sum(std::span<std::int64_t> values) override;
  void allreduce_max(std::span<std::int64_t> values) override;
  void allreduce_max(std::span<double> values) override;
  RequestPtr start_allreduce_sum(std::span<float> values) override;
  RequestPtr start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) override;
  RequestPtr start_reduce_scatter_sum(std::span<float> values) override;
  RequestPtr start_all_gather(std::span<float> values) override;
  std::vector<std::vector<std::byte>> all_gather_bytes(std::span<const std::byte> bytes) override;

  void send(std::span<const std::byte> bytes, int peer, int tag) override { start_send(bytes, peer, tag)->wait(); }
  void receive(std::span<std::byte> bytes, int peer, int tag) override { start_receive(bytes, peer, tag)->wait(); }
  RequestPtr start_send(std::span<const std::byte> bytes, int peer, int tag) override;
  RequestPtr start_receive(std::span<std::byte> bytes, int peer, int tag) override;
  std::vector<std::size_t> wait_any(std::span<Request* const> messages, const std::function<bool()>& enough) override;

  void watch(std::string_view name, const std::function<bool()>& done) override { group_->watch(name, done); }

  std::unique_ptr<Communicator> split(int color, int key) override;
  Allocator& shared_allocator() override { return page_allocator(); }
  std::shared_ptr<std::byte> allocate_on_node(std::size_t bytes) override;

 private:
  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace unisono::comm::threads
