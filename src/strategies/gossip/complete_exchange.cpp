// Every rank's vector becomes the mean of all:  into ← Σ_s from_s / P.
// Cost: an allreduce of 4N bytes for each vector. One that keeps its `from` travels while the rank computes.
#include <vector>

#include "gossip/mixing_exchange.hpp"

namespace unisono::strategies {
namespace {

class CompleteExchange final : public MixingExchange {
 public:
  explicit CompleteExchange(TrainContext& run) : run_(run), segments_(run.replica.layout().trainable()) {}

  void start(int round, std::span<const MixedVector> vectors) override;
  void finish() override;
  std::int64_t sent_bytes() const override { return sent_bytes_; }

 private:
  void begin(View from, MutableView into);

  TrainContext& run_;
  std::vector<FloatRange> segments_;
  std::vector<comm::RequestPtr> sums_;
  std::vector<MutableView> in_place_;
  std::int64_t sent_bytes_ = 0;
};

void CompleteExchange::start(int /*round*/, std::span<const MixedVector> vectors) {
  for (const MixedVector& vector : vectors) {
    for (const FloatRange& segment : segments_) {
      const MutableView from = part(vector.from, segment), into = part(vector.into, segment);
      sent_bytes_ += static_cast<std::int64_t>(from.size_bytes());
      if (from.data() == into.data()) {
        in_place_.push_back(into);
      } else {
        begin(from, into);
      }
    }
  }
}

void CompleteExchange::begin(View from, MutableView into) {
  run_.backend.axpby(1 / static_cast<float>(run_.communicator.size()), from, 0, into);
  run_.backend.submit();
  sums_.push_back(run_.communicator.start_allreduce_sum(into));
}

void CompleteExchange::finish() {
  for (const comm::RequestPtr& sum : sums_) sum->wait();
  sums_.clear();
  for (const MutableView values : in_place_) run_.communicator.allreduce_weighted_mean(values, 1);
  in_place_.clear();
}

}  // namespace

std::unique_ptr<MixingExchange> make_complete_exchange(TrainContext& run) {
  return std::make_unique<CompleteExchange>(run);
}

}  // namespace unisono::strategies
