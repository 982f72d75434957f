#include <fmt/format.h>

#include <utility>

#include "device/collectives.hpp"
#include "device/staged.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/comm/device.hpp"

namespace unisono::comm {
namespace {

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

/// There is nothing to wait for.
class Done final : public Request {
 public:
  void wait() override {}
  bool test() override { return true; }
  bool wait_unless(const std::function<bool()>&) override { return true; }
};

/// A send from device memory, or a receive into it, through a staging buffer.
class StagedMessage final : public Request {
 public:
  StagedMessage(Stage stage, bool receives) : stage_(std::move(stage)), receives_(receives) {}
  const Stage& stage() const { return stage_; }
  void started(RequestPtr below) { below_ = std::move(below); }
  Request& below() { return *below_; }

  void wait() override {
    below_->wait();
    if (!receives_) return;
    stage_.start_upload();
    stage_.wait_for_copy();
  }
  bool test() override { return below_->test(); }
  bool wait_unless(const std::function<bool()>& enough) override { return below_->wait_unless(enough); }

 private:
  Stage stage_;  // outlives the message below
  bool receives_;
  RequestPtr below_;
};

DeviceCommunicator::DeviceCommunicator(Communicator& ranks, std::unique_ptr<Communicator> owned, Device& device,
                                       MakeCollectives make)
    : owned_(std::move(owned)),
      ranks_(ranks),
      device_(device),
      make_(std::move(make)),
      collectives_(make_(ranks_, device_)) {}

void DeviceCommunicator::broadcast(std::span<std::byte> bytes, int root) {
  if (!is_there(bytes)) return below().broadcast(bytes, root);
  if (size() > 1) collectives_->broadcast(bytes, root);
}

void DeviceCommunicator::allreduce_sum(std::span<float> values) {
  if (!is_there(values)) return below().allreduce_sum(values);
  if (size() > 1) collectives_->allreduce_sum(values);
}

void DeviceCommunicator::allreduce_sum(std::span<double> values) {
  if (!is_there(values)) return below().allreduce_sum(values);
  if (size() > 1) collectives_->allreduce_sum(values);
}

RequestPtr DeviceCommunicator::start_allreduce_sum(std::span<float> values) {
  if (!is_there(values)) return below().start_allreduce_sum(values);
  if (size() == 1) return std::make_unique<Done>();
  return collectives_->start_allreduce_sum(values);
}

RequestPtr DeviceCommunicator::start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) {
  if (!is_there(vectors.front())) return below().start_tree_sum(vectors, order);
  if (size() == 1) return std::make_unique<Done>();
  return collectives_->start_tree_sum(vectors, order);
}

/// Of device memory, the two halves are queued on the device, or made through plain memory, at once.
RequestPtr DeviceCommunicator::start_reduce_scatter_sum(std::span<float> values) {
  if (!is_there(values)) return below().start_reduce_scatter_sum(values);
  if (size() > 1) collectives_->reduce_scatter_sum(values);
  return std::make_unique<Done>();
}

RequestPtr DeviceCommunicator::start_all_gather(std::span<float> values) {
  if (!is_there(values)) return below().start_all_gather(values);
  if (size() > 1) collectives_->all_gather(values);
  return std::make_unique<Done>();
}

/// With one rank, too, the weight counts: with weight 0 the values stay as they are.
void DeviceCommunicator::allreduce_weighted_mean(std::span<float> values, double weight) {
  if (!is_there(values)) return below().allreduce_weighted_mean(values, weight);
  if (size() > 1) collectives_->allreduce_weighted_mean(values, weight);
}

RequestPtr DeviceCommunicator::start_send(std::span<const std::byte> bytes, int peer, int tag) {
  if (!is_there(bytes)) return ranks_.start_send(bytes, peer, tag);
  Stage stage(device_, nullptr, {const_cast<std::byte*>(bytes.data()), bytes.size()});
  stage.start_download();
  stage.wait_for_copy();
  auto message = std::make_unique<StagedMessage>(std::move(stage), false);
  message->started(ranks_.start_send(message->stage().plain(), peer, tag));
  return message;
}

RequestPtr DeviceCommunicator::start_receive(std::span<std::byte> bytes, int peer, int tag) {
  if (!is_there(bytes)) return ranks_.start_receive(bytes, peer, tag);
  auto message = std::make_unique<StagedMessage>(Stage(device_, nullptr, bytes), true);
  message->started(ranks_.start_receive(message->stage().plain(), peer, tag));
  return message;
}

std::vector<std::size_t> DeviceCommunicator::wait_any(std::span<Request* const> messages,
                                                      const std::function<bool()>& enough) {
  std::vector<Request*> below(messages.begin(), messages.end());
  for (Request*& message : below) {
    if (auto* const staged = dynamic_cast<StagedMessage*>(message)) message = &staged->below();
  }
  return ranks_.wait_any(below, enough);
}

std::unique_ptr<Communicator> DeviceCommunicator::split(int color, int key) {
  auto part = below().split(color, key);
  Communicator& ranks = *part;
  return std::make_unique<DeviceCommunicator>(ranks, std::move(part), device_, make_);
}

std::unique_ptr<Communicator> DeviceCommunicator::alone() {
  auto self = ranks_.alone();
  Communicator& rank = *self;
  return std::make_unique<DeviceCommunicator>(rank, std::move(self), device_, make_staged_collectives);
}

/// Why not all ranks can use NCCL; empty where they can.
std::string obstacle(const std::vector<DeviceOfRank>& ranks) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].nccl_missing.empty()) return fmt::format("rank {}: {}", rank, ranks[rank].nccl_missing);
    for (std::size_t other = 0; other < rank; ++other) {
      if (ranks[other].identity == ranks[rank].identity) {
        return fmt::format("ranks {} and {} share a GPU, which NCCL does not support", other, rank);
      }
    }
  }
  return "";
}

}  // namespace

DeviceMessages* device_messages(Communicator& ranks) {
  auto* const with_devices = dynamic_cast<DeviceCommunicator*>(&ranks);
  return with_devices != nullptr ? with_devices->messages() : nullptr;
}

ChosenTransport choose_device_transport(DeviceTransport wanted, const std::vector<DeviceOfRank>& ranks,
                                        const std::string& nccl) {
  if (wanted == DeviceTransport::staged) return {false, "plain memory, as communication.device_transport says"};
  const std::string reason = obstacle(ranks);
  if (reason.empty()) return {true, nccl};
  if (wanted == DeviceTransport::nccl) {
    throw CommunicationError(
        fmt::format("communication.device_transport = \"nccl\" is not available: {}; set it to \"auto\"", reason));
  }
  return {false, fmt::format("plain memory ({})", reason)};
}

std::unique_ptr<Communicator> make_device_communicator(Communicator& ranks, Device& device,
                                                       const CommunicationSettings& settings, const Warn& say) {
  bool by_nccl = false;
  if (ranks.size() > 1) {
    std::string missing;
    const std::string version = nccl_version(missing);
    const auto identities = ranks.all_gather_text(ranks.host() + " " + device.identity());
    const auto obstacles = ranks.all_gather_text(missing);
    std::vector<DeviceOfRank> all;
    for (std::size_t i = 0; i < identities.size(); ++i) all.push_back({identities[i], obstacles[i]});
    const ChosenTransport transport = choose_device_transport(settings.device_transport, all, version);
    by_nccl = transport.nccl;
    if (say && ranks.is_root()) say("between GPUs: " + transport.text);
  }
  return std::make_unique<DeviceCommunicator>(ranks, nullptr, device,
                                              by_nccl ? nccl_collectives() : make_staged_collectives);
}

}  // namespace unisono::comm
