#include "gossip/async_averages.hpp"

#include <algorithm>
#include <utility>

#include "gossip/consensus.hpp"
#include "gossip/pair_exchange.hpp"
#include "own_pace.hpp"

namespace unisono::strategies {

AsyncAverages::AsyncAverages(TrainContext& run, PairTopology topology)
    : run_(run),
      group_(run.communicator.split(0, run.communicator.rank())),
      rank_(group_->rank()),
      pairs_(topology, group_->size()),
      partners_(pairs_.partners_of(rank_)),
      fate_(*group_),
      exchange_(*group_, fate_, run.replica.layout().trainable()),
      player_(*group_, fate_) {}

void AsyncAverages::begin(const Segment& segment) {
  turns_.begin(replayed_order(run_, segment));
  // How many steps are this rank's is known where it is alone, and in a replay.
  if (ranks() == 1) given_ = segment.steps;
  if (run_.replayed != nullptr) given_ = std::ranges::count(events(), true, &ServerEvent::is_push);
  if (!partners_.empty() && !begins()) {
    run_beside(background_, [this] { exchange_.answer(partners_, turns_, [this](int peer) { average(peer); }); });
  }
  if (rank_ == 0 && !given_) {
    run_beside(background_, [this, steps = segment.active * segment.steps] { deal_steps(steps, *group_, fate_); });
  }
}

void AsyncAverages::end(std::exception_ptr failure) {
  if (failure) give_up(failure);
  try {
    for (std::size_t i = 0; !failure && begins() && i < partners_.size(); ++i) {
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

std::span<std::byte> bytes_of(char& value) { return std::as_writable_bytes(std::span(&value, 1)); }

}  // namespace

void StepPlayer::ask() {
  answered_ = ranks_.start_receive(bytes_of(given_), kDealer, kGiveTag);
  asked_ = ranks_.start_send(bytes_of(question_), kDealer, kAskTag);
}

bool StepPlayer::is_given_one() {
  fate_.wait(*asked_);
  fate_.wait(*answered_);
  return given_ != 0;
}

void deal_steps(std::int64_t steps, comm::Communicator& ranks, parallel::CommonFate& fate) {
  const auto count = static_cast<std::size_t>(ranks.size());
  std::vector<char> questions(count);
  Waits asked;
  const auto listen = [&](std::size_t rank) {
    asked.add(ranks.start_receive(bytes_of(questions[rank]), static_cast<int>(rank), kAskTag), rank);
  };
  for (std::size_t rank = 0; rank < count; ++rank) listen(rank);
  while (!asked.empty()) {
    for (const std::size_t rank : asked.finish_some(fate)) {
      char given = steps > 0 ? 1 : 0;
      steps -= given;
      fate.wait(*ranks.start_send(bytes_of(given), static_cast<int>(rank), kGiveTag));
      if (given != 0) listen(rank);
    }
  }
}

}  // namespace unisono::strategies
