#include <algorithm>
#include <array>
#include <exception>
#include <vector>

#include "gossip/mixing.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/parallel/common_fate.hpp"

namespace unisono::strategies {

// Messages between neighbours, piece by piece:
//     for each piece of each vector:  own piece → all of `to`;   theirs ← all of `from`
//         into ← own + weight · Σ_s (theirs_s − own)
//   Written with differences, ranks that agree keep their bits, and what two ranks of a symmetric W exchange cancels in
//   the sum over the ranks but for the rounding of the additions. The messages of a piece travel while the piece before
//   is mixed. All of it runs on a thread of its own, while the rank computes its gradient; vectors in the memory of a
//   device, which only the rank's own thread may copy, are exchanged in `finish`.
// Cost for a vector, on a rank with d neighbours: d messages of 4N bytes each way, in pieces of 1 MiB; 2d + 1 flops a
// float. Memory: two pieces for each neighbour.

namespace {

constexpr Index kPieceFloats = Index{1} << 18;
constexpr int kTag = 7;

/// into ← own + weight · Σ_s (theirs_s − own). \param theirs at least one; the first is overwritten
void mix(View own, std::span<const MutableView> theirs, float weight, MutableView into) {
  constexpr std::size_t kBlock = 2048;  // stays in the first cache
  for (std::size_t first = 0; first < own.size(); first += kBlock) {
    const std::size_t last = std::min(own.size(), first + kBlock);
    float* const sum = theirs.front().data();
    for (std::size_t i = first; i < last; ++i) sum[i] -= own[i];
    for (const MutableView& more : theirs.subspan(1)) {
      for (std::size_t i = first; i < last; ++i) sum[i] += more[i] - own[i];
    }
    for (std::size_t i = first; i < last; ++i) into[i] = own[i] + weight * sum[i];
  }
}

class NeighbourExchange final : public MixingExchange {
 public:
  NeighbourExchange(TrainContext& run, const Mixing& mixing);
  ~NeighbourExchange() override;
  NeighbourExchange(const NeighbourExchange&) = delete;
  NeighbourExchange& operator=(const NeighbourExchange&) = delete;

  void start(int round, std::span<const MixedVector> vectors) override;
  void finish() override;
  std::int64_t sent_bytes() const override { return sent_bytes_; }

 private:
  /// Room for a piece under way.
  struct Slot {
    Buffer own;  ///< a plain copy of the rank's own values; empty where these are plain
    std::vector<Buffer> received;
    std::vector<MutableView> theirs;
    std::vector<comm::RequestPtr> requests;
  };

  void exchange();
  void begin(const MixedVector& piece, Slot& slot);
  void complete(const MixedVector& piece, Slot& slot);
  View plain(const MixedVector& piece, Slot& slot);

  TrainContext& run_;
  Allocator& memory_;
  const Mixing& mixing_;
  std::vector<FloatRange> segments_;
  MixingRow row_;
  std::vector<MixedVector> pieces_;
  std::array<Slot, 2> slots_;
  std::int64_t sent_bytes_ = 0;
  parallel::CommonFate fate_;
  Threads thread_{"the exchange with neighbours"};
};

NeighbourExchange::NeighbourExchange(TrainContext& run, const Mixing& mixing)
    : run_(run),
      memory_(run.backend.memory()),
      mixing_(mixing),
      segments_(run.replica.layout().trainable()),
      fate_(run.communicator) {
  Index longest = 0;
  for (const FloatRange& segment : segments_) longest = std::max(longest, segment.last - segment.first);
  const Index floats = std::min(longest, kPieceFloats);
  for (Slot& slot : slots_) {
    if (!memory_.is_plain()) slot.own = Buffer(floats);
    for (std::size_t i = 0; i < mixing.row(0, run.communicator.rank()).from.size(); ++i) {
      slot.received.emplace_back(floats);
    }
  }
}

NeighbourExchange::~NeighbourExchange() {
  if (thread_.size() > 0) fate_.give_up(nullptr);  // the rank fails while messages are under way
}

void NeighbourExchange::start(int round, std::span<const MixedVector> vectors) {
  row_ = mixing_.row(round, run_.communicator.rank());
  pieces_.clear();
  for (const MixedVector& vector : vectors) {
    for (const FloatRange& segment : segments_) {
      for (Index first = segment.first; first < segment.last; first += kPieceFloats) {
        const FloatRange piece{first, std::min(segment.last, first + kPieceFloats)};
        pieces_.push_back({part(vector.from, piece), part(vector.into, piece)});
      }
    }
  }
  if (!memory_.is_plain()) return;
  thread_.start([this] {
    try {
      exchange();
    } catch (...) {
      fate_.give_up(std::current_exception());
    }
  });
}

void NeighbourExchange::finish() {
  if (!memory_.is_plain()) return exchange();
  thread_.join();
  fate_.rethrow_cause();
}

void NeighbourExchange::exchange() {
  for (std::size_t i = 0; i <= pieces_.size(); ++i) {
    if (i < pieces_.size()) begin(pieces_[i], slots_[i % 2]);
    if (i > 0) complete(pieces_[i - 1], slots_[(i - 1) % 2]);
  }
}

/// The rank's own values, where they can be read.
View NeighbourExchange::plain(const MixedVector& piece, Slot& slot) {
  return memory_.is_plain() ? View(piece.from) : View(slot.own.view().first(piece.from.size()));
}

void NeighbourExchange::begin(const MixedVector& piece, Slot& slot) {
  comm::Communicator& ranks = run_.communicator;
  if (!memory_.is_plain()) memory_.copy(piece.from, slot.own.view().first(piece.from.size()));
  slot.theirs.clear();
  for (std::size_t i = 0; i < row_.from.size(); ++i) {
    slot.theirs.push_back(slot.received[i].view().first(piece.from.size()));
    slot.requests.push_back(ranks.start_receive(std::as_writable_bytes(slot.theirs.back()), row_.from[i], kTag));
  }
  for (const int peer : row_.to) {
    slot.requests.push_back(ranks.start_send(std::as_bytes(plain(piece, slot)), peer, kTag));
    sent_bytes_ += static_cast<std::int64_t>(piece.from.size_bytes());
  }
}

void NeighbourExchange::complete(const MixedVector& piece, Slot& slot) {
  for (const comm::RequestPtr& request : slot.requests) fate_.wait(*request);
  slot.requests.clear();
  if (memory_.is_plain()) return mix(piece.from, slot.theirs, static_cast<float>(row_.weight), piece.into);
  const MutableView own = slot.own.view().first(piece.from.size());
  mix(own, slot.theirs, static_cast<float>(row_.weight), own);
  memory_.copy(own, piece.into);
}

}  // namespace

std::unique_ptr<MixingExchange> make_neighbour_exchange(TrainContext& run, const Mixing& mixing) {
  return std::make_unique<NeighbourExchange>(run, mixing);
}

std::int64_t neighbour_exchange_bytes(const Mixing& mixing, Index floats) {
  const auto neighbours = static_cast<Index>(mixing.row(0, 0).from.size());
  return static_cast<std::int64_t>(sizeof(float)) * 2 * neighbours * std::min(floats, kPieceFloats);
}

// Every rank's vector becomes the mean of all:  into ← Σ_s from_s / P.
// Cost: an allreduce of 4N bytes for each vector. One that keeps its `from` travels while the rank computes.

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
