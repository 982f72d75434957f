#include "device/staged.hpp"

#include <algorithm>
#include <exception>

namespace unisono::comm {

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

std::unique_ptr<DeviceCollectives> make_staged_collectives(Communicator& ranks, Device& device) {
  return std::make_unique<StagedCollectives>(ranks, device);
}

}  // namespace unisono::comm
