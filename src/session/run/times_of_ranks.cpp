#include "run/times_of_ranks.hpp"

#include <filesystem>
#include <limits>

#include "unisono/records/recorded_times.hpp"

namespace unisono::session {
namespace {

constexpr int kTag = comm::Communicator::kGatherTag + 1;  // before anything is noted
constexpr int kQuestions = 20;
constexpr const char *kGradients = "/gradients.jsonl", *kMessages = "/messages.jsonl";

/// By how much rank 0's clock is ahead of this rank's.
double ask_for_time(comm::Communicator& group, const Clock& clock) {
  double shortest = std::numeric_limits<double>::infinity(), ahead = 0;
  for (int i = 0; i < kQuestions; ++i) {
    double there = 0;
    const double begin = clock.seconds();
    group.send({}, 0, kTag);
    group.receive(comm::bytes_of(there), 0, kTag);
    const double end = clock.seconds();
    if (end - begin >= shortest) continue;
    shortest = end - begin;
    ahead = there - (begin + end) / 2;
  }
  return ahead;
}

void answer(comm::Communicator& group, const Clock& clock, int rank) {
  for (int i = 0; i < kQuestions; ++i) {
    group.receive({}, rank, kTag);
    const double now = clock.seconds();
    group.send(std::as_bytes(std::span(&now, 1)), rank, kTag);
  }
}

/// Collective. \return by how much rank 0's clock is ahead of this rank's
double ahead_of_own(comm::Communicator& group, const Clock& clock) {
  const std::vector<int> nodes = group.all_gather_joined(std::vector<int>{group.node()});
  double ahead = 0;
  for (int rank = 1; rank < group.size(); ++rank) {
    if (nodes[static_cast<std::size_t>(rank)] == nodes.front()) continue;
    if (group.is_root()) answer(group, clock, rank);
    if (group.rank() == rank) ahead = ask_for_time(group, clock);
  }
  return ahead;
}

}  // namespace

TimesOfRanks::TimesOfRanks(comm::Communicator& group, const Clock& clock) : group_(group) {
  const double ahead = ahead_of_own(group, clock);
  group.barrier();
  double zero = clock.seconds();  // rank 0's
  group.broadcast(std::as_writable_bytes(std::span(&zero, 1)), 0);
  zero_ = zero - ahead;
  group.begin_arrivals(zero_);
}

void TimesOfRanks::write(const std::string& folder) {
  std::vector<records::GradientTime> own;
  for (const parallel::TimedGradient& one : gradients_) {
    own.push_back({.rank = group_.rank(), .begin = one.begin - zero_, .seconds = one.seconds});
  }
  const std::vector<comm::Arrival> messages = group_.gather_joined(group_.take_arrivals());
  const std::vector<records::GradientTime> gradients = group_.gather_joined(own);
  if (!group_.is_root()) return;
  records::write_gradient_times(folder + kGradients, gradients);
  if (!messages.empty()) records::write_message_times(folder + kMessages, messages);
}

void TimesOfRanks::forget(const comm::Communicator& group, const std::string& folder, Log& log) {
  if (!group.is_root()) return;
  std::error_code ignored;
  for (const char* name : {kGradients, kMessages}) std::filesystem::remove(folder + name, ignored);
  log.warning(
      "communication.record_times: a resumed run has no recorded times, since those of its first part are gone");
}

}  // namespace unisono::session
