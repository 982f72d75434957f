#include "gossip/pair_exchange.hpp"

#include <algorithm>

#include "unisono/base/random.hpp"

// Averages of two ranks by messages:
//     a begins:   Call → b;                                 b: lets nobody else touch θ_b
//     for each piece:  a's piece → b, b's piece → a;        both: own ← (own + theirs) / 2
//   A sum of two floats does not depend on their order: both ranks get the same bits, and ranks that agree keep theirs.
//   The messages of a piece travel while the piece before is averaged.
// Cost: 4N bytes each way and a message of 4 bytes, in pieces of 1 MiB; 2 flops a float. Memory: two pieces.
namespace unisono::strategies {
namespace {

constexpr Index kPairPieceFloats = Index{1} << 18;
constexpr int kCallTag = 1, kValuesTag = 2;

}  // namespace

PairExchange::PairExchange(comm::Communicator& ranks, parallel::CommonFate& fate, std::vector<FloatRange> segments)
    : ranks_(ranks), fate_(fate) {
  Index longest = 0;
  for (const FloatRange& segment : segments) {
    for (Index first = segment.first; first < segment.last; first += kPairPieceFloats) {
      pieces_.push_back({first, std::min(segment.last, first + kPairPieceFloats)});
      longest = std::max(longest, pieces_.back().last - first);
    }
  }
  if (ranks.size() == 1) return;
  for (Slot& slot : slots_) slot.theirs = Buffer(longest);
}

std::int64_t PairExchange::extra_bytes(Index floats) {
  return static_cast<std::int64_t>(sizeof(float)) * 2 * std::min(floats, kPairPieceFloats);
}

void PairExchange::call(int peer, Call call) {
  fate_.wait(*ranks_.start_send(std::as_bytes(std::span(&call, 1)), peer, kCallTag));
}

void PairExchange::average(MutableView own, int peer) {
  for (std::size_t i = 0; i <= pieces_.size(); ++i) {
    if (i < pieces_.size()) begin(part(own, pieces_[i]), peer, slots_[i % 2]);
    if (i > 0) complete(part(own, pieces_[i - 1]), slots_[(i - 1) % 2]);
  }
}

void PairExchange::begin(MutableView own, int peer, Slot& slot) {
  const MutableView theirs = slot.theirs.view().first(own.size());
  slot.received = ranks_.start_receive(std::as_writable_bytes(theirs), peer, kValuesTag);
  slot.sent = ranks_.start_send(std::as_bytes(own), peer, kValuesTag);
  sent_bytes_ += static_cast<std::int64_t>(own.size_bytes());
}

void PairExchange::complete(MutableView own, Slot& slot) {
  fate_.wait(*slot.received);
  fate_.wait(*slot.sent);  // own values are overwritten now
  const float* const theirs = slot.theirs.data();
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = 0.5F * (own[i] + theirs[i]);
}

void PairExchange::answer(const std::vector<int>& peers, const Turns& turns,
                          const std::function<void(int peer)>& exchange) {
  std::vector<Call> calls(peers.size());
  Waits lines;  // to the peers that have not left
  const auto listen = [&](std::size_t i) {
    lines.add(ranks_.start_receive(std::as_writable_bytes(std::span(&calls[i], 1)), peers[i], kCallTag), i);
  };
  for (std::size_t i = 0; i < peers.size(); ++i) listen(i);
  std::vector<int> waiting;  // peers that called, in the order of their calls
  const auto next = [&] {
    return std::ranges::find_if(waiting, [&](int peer) { return turns.may_be_next({peer, false}); });
  };
  while (!lines.empty()) {
    for (const std::size_t i : lines.finish_some(fate_, [&] { return next() != waiting.end(); })) {
      if (calls[i] == Call::leave) continue;
      waiting.push_back(peers[i]);
      listen(i);
    }
    for (auto turn = next(); turn != waiting.end(); turn = next()) {
      const int peer = *turn;
      waiting.erase(turn);
      exchange(peer);
    }
  }
}

std::vector<int> Pairs::partners_of(int rank) const {
  std::vector<int> partners;
  for (int other = 0; other < ranks_; ++other) {
    const bool is_pair = begins(rank) != begins(other);
    const int apart = (other - rank + ranks_) % ranks_;
    if (is_pair && (topology_ == PairTopology::complete || apart == 1 || apart == ranks_ - 1)) {
      partners.push_back(other);
    }
  }
  return partners;
}

int Pairs::partner(std::uint64_t seed, int rank, std::int64_t step) const {
  const std::vector<int> partners = partners_of(rank);
  RandomStream random(seed, Purpose::partners, static_cast<std::uint64_t>(step), static_cast<std::uint32_t>(rank));
  return partners[random.below(partners.size())];
}

}  // namespace unisono::strategies
