#include "world.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "unisono/base/clock.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::comm::threads {

void World::fail(const std::string& reason) {
  const std::lock_guard lock(mutex);
  fail_locked(reason);
}

void World::fail_locked(const std::string& reason) {
  if (failure.empty()) failure = reason;
  changed.notify_all();
}

void World::end(int rank) {
  const std::lock_guard lock(mutex);
  ended[static_cast<std::size_t>(rank)] = true;
  changed.notify_all();
}

Group::Group(std::shared_ptr<World> world, std::vector<int> members)
    : Membership(std::move(members),
                 [&world](int member) { return world->ranks_per_node > 0 ? member / world->ranks_per_node : 0; }),
      world_(std::move(world)),
      sequence_(static_cast<std::size_t>(size()), 0) {
  if (nodes().size() < 2) return;
  for (const Node& node : nodes()) nodes_.push_back(std::make_shared<Group>(world_, node.members));
}

std::string Group::host(int) const {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

void Group::set_step(int rank, std::int64_t step) {
  const std::lock_guard lock(world_->mutex);
  world_->steps[static_cast<std::size_t>(world_rank(rank))] = step;
}

RendezvousPtr Group::arrive(int rank, const Collective& collective, void* part, const Action& action) {
  const char* const name = collective.name;
  const std::lock_guard lock(world_->mutex);
  if (!world_->failure.empty()) throw PeerFailure(world_->failure);
  const std::uint64_t sequence = sequence_[static_cast<std::size_t>(rank)]++;
  RendezvousPtr& slot = rendezvous_points_[sequence];
  if (slot == nullptr)
    slot = std::make_shared<Rendezvous>(Rendezvous{.name = name, .parts = std::vector<void*>(members().size())});
  const RendezvousPtr rendezvous = slot;
  if (std::strcmp(rendezvous->name, name) != 0) {
    const std::string reason = text_of_different_calls(rank, name, rendezvous->name);
    world_->fail_locked(reason);
    throw CommunicationError(reason);
  }
  rendezvous->parts[static_cast<std::size_t>(rank)] = part;
  if (++rendezvous->arrived < members().size()) return rendezvous;
  rendezvous_points_.erase(sequence);
  action(rendezvous->parts);
  rendezvous->done = true;
  world_->changed.notify_all();
  return rendezvous;
}

RendezvousPtr Group::post(bool sends, std::span<std::byte> bytes, int rank, int peer, int tag) {
  const std::lock_guard lock(world_->mutex);
  if (!world_->failure.empty()) throw PeerFailure(world_->failure);
  const int from = sends ? rank : peer, to = sends ? peer : rank;
  const auto match = std::find_if(posts_.begin(), posts_.end(), [&](const Post& post) {
    return post.from == from && post.to == to && post.tag == tag && post.sends != sends;
  });
  if (match == posts_.end()) {
    auto rendezvous = std::make_shared<Rendezvous>(
        Rendezvous{.name = sends ? "receive" : "send", .parts = std::vector<void*>(members().size())});
    for (std::size_t r = 0; r < members().size(); ++r) {  // all but the peer count as arrived
      if (static_cast<int>(r) != peer) rendezvous->parts[r] = this;
    }
    posts_.push_back({from, to, tag, sends, bytes, rendezvous});
    return rendezvous;
  }
  const Post other = *match;
  posts_.erase(match);
  if (other.bytes.size() != bytes.size()) {
    other.rendezvous->error = text_of_different_lengths(from, (sends ? bytes : other.bytes).size(), to, tag,
                                                        (sends ? other.bytes : bytes).size());
  } else if (!bytes.empty()) {
    std::memcpy((sends ? other.bytes : bytes).data(), (sends ? bytes : other.bytes).data(), bytes.size());
  }
  other.rendezvous->done = true;
  world_->changed.notify_all();
  return other.rendezvous;
}

void Group::wait(const Rendezvous& rendezvous) {
  std::unique_lock lock(world_->mutex);
  const std::chrono::duration<double> timeout(world_->timeout_seconds);
  if (!world_->changed.wait_for(lock, timeout, [&] { return is_over_locked(rendezvous); })) time_out_locked(rendezvous);
  check_locked(rendezvous);
}

bool Group::test(const Rendezvous& rendezvous) {
  const std::lock_guard lock(world_->mutex);
  if (!is_over_locked(rendezvous)) return false;
  check_locked(rendezvous);
  return true;
}

std::vector<std::size_t> Group::wait_any(std::span<const Rendezvous* const> rendezvous_points,
                                         const std::function<bool()>& enough) {
  const Stopwatch watch;
  std::vector<std::size_t> over;
  for (;;) {
    for (std::size_t i = 0; i < rendezvous_points.size(); ++i) {
      if (test(*rendezvous_points[i])) over.push_back(i);
    }
    if (!over.empty() || enough()) return over;
    std::unique_lock lock(world_->mutex);
    if (watch.seconds() > world_->timeout_seconds) time_out_locked(*rendezvous_points.front());
    // Polls, since no notification comes when enough() becomes true.
    world_->changed.wait_for(lock, std::chrono::microseconds(50), [&] {
      return std::any_of(rendezvous_points.begin(), rendezvous_points.end(),
                         [&](const Rendezvous* one) { return is_over_locked(*one); });
    });
  }
}

void Group::watch(std::string_view name, const std::function<bool()>& done) {
  const Stopwatch watch;
  while (!done()) {
    std::unique_lock lock(world_->mutex);
    if (!world_->failure.empty()) throw PeerFailure(world_->failure);
    if (watch.seconds() > world_->timeout_seconds) {
      const std::string reason = fmt::format("{} did not finish within {} s", name, world_->timeout_seconds);
      world_->fail_locked(reason);
      throw CommunicationError(reason);
    }
    world_->changed.wait_for(lock, std::chrono::microseconds(50));
  }
}

/// It happened, or never will.
bool Group::is_over_locked(const Rendezvous& rendezvous) const {
  return rendezvous.done || !world_->failure.empty() || !missing_locked(rendezvous, true).empty();
}

void Group::time_out_locked(const Rendezvous& rendezvous) {
  const std::string reason = fmt::format("{} did not arrive at {} within {} s", missing_locked(rendezvous, false),
                                         rendezvous.name, world_->timeout_seconds);
  world_->fail_locked(reason);
  throw CommunicationError(reason);
}

void Group::abandon(const Rendezvous& rendezvous) noexcept {
  const std::lock_guard lock(world_->mutex);
  if (!rendezvous.done)
    world_->fail_locked(std::string("a rank abandoned ") + rendezvous.name + ", which it had started");
}

void Group::check_locked(const Rendezvous& rendezvous) {
  if (rendezvous.done && rendezvous.error.empty()) return;
  if (rendezvous.done) throw CommunicationError(rendezvous.error);
  if (!world_->failure.empty()) throw PeerFailure(world_->failure);
  const std::string reason =
      fmt::format("{} ended without taking part in {}", missing_locked(rendezvous, true), rendezvous.name);
  world_->fail_locked(reason);
  throw CommunicationError(reason);
}

/// "rank 1 (step 7), rank 3 (step 7)": the ranks that have not arrived, or only those of them that have ended; or
/// empty.
std::string Group::missing_locked(const Rendezvous& rendezvous, bool ended_only) const {
  std::string names;
  for (std::size_t r = 0; r < members().size(); ++r) {
    const auto member = static_cast<std::size_t>(members()[r]);
    if (rendezvous.parts[r] != nullptr || (ended_only && !world_->ended[member])) continue;
    names += fmt::format("{}rank {}", names.empty() ? "" : ", ", members()[r]);
    if (world_->steps[member] >= 0) names += fmt::format(" (step {})", world_->steps[member]);
  }
  return names;
}

}  // namespace unisono::comm::threads
