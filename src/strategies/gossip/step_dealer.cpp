#include "gossip/step_dealer.hpp"

#include "gossip/waits.hpp"

namespace unisono::strategies {
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
