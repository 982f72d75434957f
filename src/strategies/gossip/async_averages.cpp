#include "gossip/async_averages.hpp"

#include <algorithm>

#include "gossip/consensus.hpp"
#include "step.hpp"
#include "unisono/base/random.hpp"

namespace unisono::strategies {

AsyncAverages::AsyncAverages(TrainContext& run, PairTopology topology)
    : run_(run),
      group_(run.communicator.split(0, run.communicator.rank())),
      rank_(group_->rank()),
      pairs_(topology, group_->size()),
      partners_(pairs_.partners_of(rank_)),
      fate_(*group_),
      turns_(run.runtime),
      exchange_(*group_, fate_, run.replica.layout().trainable()),
      player_(*group_, fate_),
      averaging_("averages with other ranks", 1, run.runtime),
      background_("answers to other ranks", 1, run.runtime) {}

void AsyncAverages::begin(const Segment& segment) {
  turns_.begin(replayed_order(run_, segment));
  begins_ = !partners_.empty() && Pairs::begins(rank_, segment.first / run_.source.steps_per_epoch());
  // How many steps are this rank's is known where it is alone, and in a replay.
  if (ranks() == 1) given_ = segment.steps;
  if (run_.replayed != nullptr) given_ = std::ranges::count(events(), true, &ServerEvent::is_push);
  if (!partners_.empty() && !begins_) {
    run_beside(background_, [this] { exchange_.answer(partners_, turns_, [this](int peer) { average(peer); }); });
  }
  if (rank_ == 0 && !given_) {
    run_beside(background_, [this, steps = segment.active * segment.steps] { deal_steps(steps, *group_, fate_); });
  }
}

void AsyncAverages::end(std::exception_ptr failure) {
  if (failure) give_up(failure);
  try {
    for (std::size_t i = 0; !failure && begins_ && i < partners_.size(); ++i) {
      exchange_.call(partners_[i], Call::leave);
    }
  } catch (...) {
    give_up(std::current_exception());
  }
  averaging_.join();
  background_.join();
  fate_.rethrow_cause();
}

void AsyncAverages::ask() {
  if (!given_) player_.ask();
}

bool AsyncAverages::is_given_one(std::int64_t made) { return given_ ? made < *given_ : player_.is_given_one(); }

void AsyncAverages::start(std::int64_t step) {
  ++begun_;
  run_beside(averaging_, [this, partner = pairs_.partner(run_.seed, rank_, step)] {
    exchange_.call(partner, Call::exchange);
    average(partner);
  });
}

AsyncAverages::Turn AsyncAverages::turn_to_step() {
  averaging_.join();
  return turns_.take({rank_, true});
}

/// θ_r, θ_s ← (θ_r + θ_s) / 2
void AsyncAverages::average(int peer) {
  const Turn turn = turns_.take({peer, false});
  exchange_.average(run_.vectors[kReplica].values.view(), peer);
  ++count_;
}

/// Runs something on a thread of its own.
template <typename Work>
void AsyncAverages::run_beside(Threads& threads, Work work) {
  threads.start([this, work] {
    try {
      work();
    } catch (...) {
      give_up(std::current_exception());
    }
  });
}

/// Ends what the other threads of this rank wait for.
void AsyncAverages::give_up(std::exception_ptr cause) {
  fate_.give_up(std::move(cause));
  turns_.end();
}

namespace {

constexpr int kDealer = 0;
constexpr int kAskTag = 3, kGiveTag = 4;

}  // namespace

void StepPlayer::ask() {
  answered_ = ranks_.start_receive(comm::bytes_of(given_), kDealer, kGiveTag);
  asked_ = ranks_.start_send(comm::bytes_of(question_), kDealer, kAskTag);
}

bool StepPlayer::is_given_one() {
  fate_.wait(*asked_);
  fate_.wait(*answered_);
  return given_ != 0;
}

void deal_steps(std::int64_t steps, comm::Communicator& ranks, parallel::CommonFate& fate) {
  const auto count = static_cast<std::size_t>(ranks.size());
  std::vector<char> questions(count);
  parallel::Awaited asked(ranks, fate);
  std::function<void(std::size_t rank)> answer;
  const auto listen = [&](std::size_t rank) {
    asked.when(ranks.start_receive(comm::bytes_of(questions[rank]), static_cast<int>(rank), kAskTag),
               [&answer, rank] { answer(rank); });
  };
  answer = [&](std::size_t rank) {
    char given = steps > 0 ? 1 : 0;
    steps -= given;
    fate.wait(*ranks.start_send(comm::bytes_of(given), static_cast<int>(rank), kGiveTag));
    if (given != 0) listen(rank);
  };
  for (std::size_t rank = 0; rank < count; ++rank) listen(rank);
  while (!asked.empty()) {
    for (const auto& then : asked.finish_some()) then();
  }
}

// Averages of two ranks by messages:
//     a begins:   Call → b;                                 b: lets nobody else touch θ_b
//     for each piece:  a's piece → b, b's piece → a;        both: own ← (own + theirs) / 2
//   A sum of two floats does not depend on their order: both ranks get the same bits, and ranks that agree keep theirs.
//   The messages of a piece travel while the piece before is averaged.
// Cost: 4N bytes each way and a message of 4 bytes, in pieces of 1 MiB; 2 flops a float. Memory: two pieces.

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
  parallel::Awaited lines(ranks_, fate_);  // to the peers that have not left
  std::vector<int> waiting;                // peers that called, in the order of their calls
  std::function<void(std::size_t i)> hear;
  const auto listen = [&](std::size_t i) {
    lines.when(ranks_.start_receive(std::as_writable_bytes(std::span(&calls[i], 1)), peers[i], kCallTag),
               [&hear, i] { hear(i); });
  };
  hear = [&](std::size_t i) {
    if (calls[i] == Call::leave) return;
    waiting.push_back(peers[i]);
    listen(i);
  };
  for (std::size_t i = 0; i < peers.size(); ++i) listen(i);
  const auto next = [&] {
    return std::ranges::find_if(waiting, [&](int peer) { return turns.may_be_next({peer, false}); });
  };
  while (!lines.empty()) {
    for (const auto& then : lines.finish_some([&] { return next() != waiting.end(); })) then();
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
    const bool is_pair = (rank - other) % 2 != 0;
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
