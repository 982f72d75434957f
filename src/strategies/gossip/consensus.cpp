#include "gossip/consensus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <exception>
#include <numbers>

#include "unisono/base/threads.hpp"
#include "unisono/parallel/common_fate.hpp"

namespace unisono::strategies {
namespace {

constexpr Index kSumPieceFloats = Index{1} << 16;

/// mean ← Σ_r weight_r own_r / Σ_r weight_r on the trainable segments. \return bytes that were averaged
std::int64_t average(TrainContext& run, const ParameterLayout& layout, View own, MutableView mean, double weight = 1) {
  std::int64_t bytes = 0;
  run.backend.memory().copy(own, mean);
  for (const FloatRange& segment : layout.trainable()) {
    const MutableView values = part(mean, segment);
    run.communicator.allreduce_weighted_mean(values, weight);
    bytes += static_cast<std::int64_t>(values.size_bytes());
  }
  return bytes;
}

/// ‖a − b‖², in pieces.
double squared_distance(kernels::Backend& backend, View a, View b) {
  Buffer piece(std::min(std::ssize(a), kSumPieceFloats), backend.memory());
  double sum = 0;
  for (Index first = 0; first < std::ssize(a); first += kSumPieceFloats) {
    const FloatRange range{first, std::min(std::ssize(a), first + kSumPieceFloats)};
    const MutableView difference = piece.view().first(static_cast<std::size_t>(range.last - range.first));
    backend.axpby(1, part(a, range), 0, difference);
    backend.axpby(-1, part(b, range), 1, difference);
    sum += backend.squared_norm(difference);
  }
  return sum;
}

}  // namespace

TrainContext own_context(TrainContext& run) {
  TrainContext own = run;
  own.state = {run.vectors[kReplica].values.view(), run.vectors[kReplicaStatistics].values.view()};
  if (run.first_step == 0) {
    run.backend.memory().copy(run.state.parameters, own.state.parameters);
    run.backend.memory().copy(run.state.statistics, own.state.statistics);
  }
  return own;
}

void ConsensusCounters::describe(CounterVisitor& visitor) {
  averaged.describe(visitor);
  const auto square = [](std::string_view name) {
    return Counter{.name = name, .shown = Shown::everywhere, .hidden = true, .adds_up = false};
  };
  visitor.number(square("difference_squares"), difference_squares);
  visitor.number(square("mean_squares"), mean_squares);
  visitor.figure({.name = "consensus_distance", .shown = Shown::in_metrics}, distance());
}

void ConsensusCounters::describe_in_summary(CounterVisitor& visitor) const {
  visitor.figure({.name = "consensus_distance"}, distance());
}

double ConsensusCounters::distance() const {
  return mean_squares > 0 ? std::sqrt(difference_squares / mean_squares) : 0;
}

std::string gossip_text(const CounterTerms& terms, std::int64_t sent_bytes, const ConsensusCounters& consensus,
                        const std::string& exchanges) {
  return consensus.averaged.text(terms) +
         fmt::format(
             "  gossip      {:.1f} MB per epoch and rank to neighbours; ranks are {:.3g} % of the norm from their "
             "consensus; "
             "{}\n",
             terms.megabytes(sent_bytes), 100 * consensus.distance(), exchanges);
}

void form_consensus(TrainContext& run, models::ModelState own, ConsensusCounters& counters, double statistics_weight) {
  parallel::meet(run);
  const parallel::Phase phase(run, run.seconds.exposed_communication);
  const std::int64_t bytes =
      average(run, run.replica.layout(), own.parameters, run.state.parameters) +
      average(run, run.replica.statistics_layout(), own.statistics, run.state.statistics, statistics_weight);
  counters.averaged.bytes += run.communicator.size() > 1 ? bytes : 0;
  counters.difference_squares = squared_distance(run.backend, own.parameters, run.state.parameters);
  counters.mean_squares = run.backend.squared_norm(run.state.parameters);
}

std::string need_of_examples_for_statistics(const models::Model& model) {
  return model.statistics_layout().size() > 0 ? "never change their running statistics" : "";
}

// Mixing matrices of graphs that look the same from every rank: rank r receives from r − s for each shift s of a set S.
//     W_rs = 1 / (1 + |S|)   for r itself and its |S| neighbours, else 0
//   These are the Metropolis-Hastings weights 1 / (1 + max(d_r, d_s)), since all degrees are equal (Xiao & Boyd, 2004).
//   Each shift is a permutation of the ranks, so W, a mean of permutations, is doubly stochastic.
//     ring         S = {±1}
//     grid         S = {±1 row, ±1 column}, on R × C ranks, R the largest divisor of P up to √P; a prime P gives a ring
//     exponential  S = {2^k} in round k = 0 … ⌈log₂ P⌉ − 1 (Assran et al., ICML 2019; Ying et al., NeurIPS 2021)
//     complete     S = all others
//   Shifts commute, so the Fourier modes of the grid are eigenvectors of all these matrices: with ω = 2π (a/R, b/C),
//     λ(a, b) = (1 + Σ_{s ∈ S} e^{−i ω·s}) / (1 + |S|),   σ₂ of a product = max over (a, b) ≠ 0 of Π |λ(a, b)|
//   For P = 2^k the exponential graph's product is the exact mean: 1 + e^{−iωs} = 0 for one of the rounds.

namespace {

/// The largest divisor of n that is at most √n.
int rows_of_grid(int n) {
  int rows = 1;
  for (int i = 2; i <= n / i; ++i) rows = n % i == 0 ? i : rows;
  return rows;
}

}  // namespace

Mixing::Mixing(Topology topology, int ranks) : columns_(ranks), rounds_(1) {
  switch (topology) {
    case Topology::ring:
      for (const int step : {-1, 1}) add(rounds_[0], 0, step);
      return;
    case Topology::grid:
      rows_ = rows_of_grid(ranks);
      columns_ = ranks / rows_;
      for (const int step : {-1, 1}) add(rounds_[0], step, 0);
      for (const int step : {-1, 1}) add(rounds_[0], 0, step);
      return;
    case Topology::exponential:
      for (int distance = 1, round = 0; distance < ranks; distance *= 2, ++round) {
        rounds_.resize(static_cast<std::size_t>(round) + 1);
        add(rounds_.back(), 0, distance);
      }
      return;
    case Topology::complete:
      for (int distance = 1; distance < ranks; ++distance) add(rounds_[0], 0, distance);
      return;
  }
}

/// Adds a shift that leads to another rank, once.
void Mixing::add(Round& round, int rows, int columns) const {
  const Shift shift{(rows + rows_) % rows_, (columns + columns_) % columns_};
  if (shift != Shift{} && std::ranges::find(round, shift) == round.end()) round.push_back(shift);
}

int Mixing::moved(int rank, const Shift& shift, int sign) const {
  const int row = (rank / columns_ + sign * shift.rows + rows_) % rows_;
  const int column = (rank % columns_ + sign * shift.columns + columns_) % columns_;
  return row * columns_ + column;
}

MixingRow Mixing::row(int round, int rank) const {
  const Round& shifts = rounds_[static_cast<std::size_t>(round)];
  MixingRow row{.from = {}, .to = {}, .weight = 1.0 / static_cast<double>(1 + shifts.size())};
  for (const Shift& shift : shifts) {
    row.from.push_back(moved(rank, shift, -1));
    row.to.push_back(moved(rank, shift, 1));
  }
  return row;
}

double Mixing::second_singular_value() const {
  double largest = 0;
  for (int mode = 1; mode < ranks(); ++mode) {
    const double along_rows = 2 * std::numbers::pi * (mode / columns_) / rows_;
    const double along_columns = 2 * std::numbers::pi * (mode % columns_) / columns_;
    double product = 1;
    for (const Round& shifts : rounds_) {
      std::complex<double> sum = 1;
      for (const Shift& shift : shifts)
        sum += std::polar(1.0, -along_rows * shift.rows - along_columns * shift.columns);
      product *= std::abs(sum) / static_cast<double>(1 + shifts.size());
    }
    largest = std::max(largest, product);
  }
  return largest;
}

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
  Threads thread_;
};

NeighbourExchange::NeighbourExchange(TrainContext& run, const Mixing& mixing)
    : run_(run),
      memory_(run.backend.memory()),
      mixing_(mixing),
      segments_(run.replica.layout().trainable()),
      fate_(run.communicator),
      thread_("the exchange with neighbours", 1, run.runtime) {
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
