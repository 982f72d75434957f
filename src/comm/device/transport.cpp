#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <list>
#include <map>
#include <utility>

#include "device/collectives.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/comm/device.hpp"

namespace unisono::comm {
namespace {

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

// --- Memory ----------------------------------------------------------------------------------------------------------

void* MirroredMemory::allocate(std::size_t bytes) {
  auto* const there = static_cast<std::byte*>(device_.memory().allocate(bytes));
  Mirror mirror{static_cast<std::byte*>(plain_.allocate(bytes)), bytes};
  device_.pin(mirror.memory, bytes);
  mirrors_.emplace(there, mirror);
  return there;
}

void MirroredMemory::deallocate(void* pointer) noexcept {
  const auto found = mirrors_.find(static_cast<std::byte*>(pointer));
  try {
    device_.synchronise();  // it may still be in use by a copy
  } catch (const std::exception&) {
    // Then nothing is under way any more.
  }
  device_.unpin(found->second.memory);
  plain_.deallocate(found->second.memory);
  mirrors_.erase(found);
  device_.memory().deallocate(pointer);
}

std::byte* MirroredMemory::mirror_of(const std::byte* there) const {
  auto after = mirrors_.upper_bound(there);
  if (after == mirrors_.begin()) return nullptr;
  const auto& [begin, mirror] = *--after;
  const auto offset = static_cast<std::size_t>(there - begin);
  return offset < mirror.bytes ? mirror.memory + offset : nullptr;
}

Stage::Stage(Device& device, const MirroredMemory* memory, std::span<std::byte> there)
    : device_(device), there_(there), plain_(memory != nullptr ? memory->mirror_of(there.data()) : nullptr) {
  if (plain_ != nullptr) return;
  own_ = Buffer(static_cast<Index>((there.size() + sizeof(float) - 1) / sizeof(float)), device.pinned());
  plain_ = reinterpret_cast<std::byte*>(own_.data());
}

void Stage::start_download() { copy_ = device_.start_download(there_.data(), plain_, there_.size()); }
void Stage::start_upload() { copy_ = device_.start_upload(plain_, there_.data(), there_.size()); }
void Stage::wait_for_copy() { copy_->wait(); }

// --- A started sum ---------------------------------------------------------------------------------------------------

/// A started sum: copies the values from the device, sums them by the wrapped communicator, and copies them back.
class StagedSum final : public Request {
 public:
  /// \param stages of the vectors that are summed \param order of their sum; null: an allreduce of the only one
  StagedSum(StagedCollectives& collectives, std::vector<Stage> stages, const TreeSum* order)
      : collectives_(collectives), stages_(std::move(stages)), order_(order) {
    for (Stage& stage : stages_) stage.start_download();
  }

  bool has_come() {
    return std::ranges::all_of(stages_, [](Stage& stage) { return stage.copied(); });
  }
  void wait_for_download() {
    for (Stage& stage : stages_) stage.wait_for_copy();
  }
  void start_sum() {
    for (const Stage& stage : stages_) {
      const std::span<std::byte> bytes = stage.plain();
      vectors_.emplace_back(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
    }
    sum_ = order_ != nullptr ? collectives_.ranks().start_tree_sum(vectors_, *order_)
                             : collectives_.ranks().start_allreduce_sum(vectors_.front());
  }

  void wait() override {
    collectives_.advance(this, true);
    sum_->wait();
    stages_.front().start_upload();
    collectives_.keep(std::move(stages_.front()));
    stages_.clear();
  }
  bool test() override {
    collectives_.advance(this, false);
    return sum_ && sum_->test();
  }
  bool wait_unless(const std::function<bool()>& enough) override {
    collectives_.advance(this, true);
    return sum_->wait_unless(enough);
  }
  void wait_for_arrivals() override {
    collectives_.advance(this, true);
    sum_->wait_for_arrivals();
  }

 private:
  StagedCollectives& collectives_;
  std::vector<Stage> stages_;  ///< until it is waited for
  const TreeSum* order_;
  std::vector<std::span<float>> vectors_;  ///< the staging buffers
  RequestPtr sum_;
};

// --- Collectives -----------------------------------------------------------------------------------------------------

StagedCollectives::~StagedCollectives() {
  for (Stage& stage : uploading_) stage.wait_for_copy();
}

void StagedCollectives::keep(Stage stage) {
  std::erase_if(uploading_, [](Stage& kept) { return kept.copied(); });
  uploading_.push_back(std::move(stage));
}

void StagedCollectives::advance(const StagedSum* up_to, bool waits) {
  while (!downloading_.empty()) {
    StagedSum* const next = downloading_.front();
    if (!next->has_come()) {
      if (!waits) return;
      next->wait_for_download();
    }
    downloading_.pop_front();
    next->start_sum();
    if (next == up_to) waits = false;
  }
}

void StagedCollectives::flush() { advance(nullptr, true); }

template <typename T, typename Act>
void StagedCollectives::through_plain_memory(std::span<T> values, Act act) {
  flush();
  Stage stage(device_, &memory_, std::as_writable_bytes(values));
  stage.start_download();
  stage.wait_for_copy();
  act(std::span(reinterpret_cast<T*>(stage.plain().data()), values.size()));
  stage.start_upload();
  keep(std::move(stage));
}

void StagedCollectives::broadcast(std::span<std::byte> bytes, int root) {
  through_plain_memory(bytes, [&](std::span<std::byte> plain) { ranks_.broadcast(plain, root); });
}

void StagedCollectives::allreduce_sum(std::span<float> values) {
  through_plain_memory(values, [&](std::span<float> plain) { ranks_.allreduce_sum(plain); });
}

void StagedCollectives::allreduce_sum(std::span<double> values) {
  through_plain_memory(values, [&](std::span<double> plain) { ranks_.allreduce_sum(plain); });
}

RequestPtr StagedCollectives::start(std::span<const std::span<float>> vectors, const TreeSum* order) {
  std::vector<Stage> stages;
  for (const std::span<float>& vector : vectors) stages.emplace_back(device_, &memory_, std::as_writable_bytes(vector));
  auto sum = std::make_unique<StagedSum>(*this, std::move(stages), order);
  downloading_.push_back(sum.get());
  return sum;
}

RequestPtr StagedCollectives::start_allreduce_sum(std::span<float> values) { return start({&values, 1}, nullptr); }

RequestPtr StagedCollectives::start_tree_sum(std::span<const std::span<float>> vectors, const TreeSum& order) {
  return start(vectors, &order);
}

void StagedCollectives::reduce_scatter_sum(std::span<float> values) {
  through_plain_memory(values, [&](std::span<float> plain) { ranks_.reduce_scatter_sum(plain); });
}

void StagedCollectives::all_gather(std::span<float> values) {
  through_plain_memory(values, [&](std::span<float> plain) { ranks_.all_gather(plain); });
}

void StagedCollectives::allreduce_weighted_mean(std::span<float> values, double weight) {
  through_plain_memory(values, [&](std::span<float> plain) { ranks_.allreduce_weighted_mean(plain, weight); });
}

}  // namespace

std::unique_ptr<DeviceCollectives> make_staged_collectives(Communicator& ranks, Device& device) {
  return std::make_unique<StagedCollectives>(ranks, device);
}

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

  RequestPtr start_send(std::span<const std::byte> bytes, int peer, int tag) override;
  RequestPtr start_receive(std::span<std::byte> bytes, int peer, int tag) override;
  std::vector<std::size_t> wait_any(std::span<Request* const> messages, const std::function<bool()>& enough) override;
  void begin_arrivals(double zero) override { ranks_.begin_arrivals(zero); }
  std::vector<Arrival> take_arrivals() override { return ranks_.take_arrivals(); }
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
