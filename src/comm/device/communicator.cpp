#include "device/communicator.hpp"

#include <utility>

#include "device/staged.hpp"

namespace unisono::comm {
namespace {

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

}  // namespace

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

DeviceMessages* device_messages(Communicator& ranks) {
  auto* const with_devices = dynamic_cast<DeviceCommunicator*>(&ranks);
  return with_devices != nullptr ? with_devices->messages() : nullptr;
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

}  // namespace unisono::comm
