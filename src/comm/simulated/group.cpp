#include "simulated/group.hpp"

#include <fmt/format.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace unisono::comm::simulated {
namespace {

constexpr std::size_t kBufferedBytes = std::size_t{4} << 10;     ///< as MPI libraries do with messages of a few KiB
constexpr std::size_t kBytesForThreads = std::size_t{64} << 10;  ///< less is copied before another thread wakes up

void copy(std::span<const std::byte> source, std::span<std::byte> target) {
  std::memcpy(target.data(), source.data(), target.size());
}

/// Past the caches, which many workers' vectors do not fit into: what is overwritten need not be read first.
void copy_long(std::span<const std::byte> source, std::span<std::byte> target) {
#ifdef __SSE2__
  constexpr std::size_t kVector = sizeof(__m128i);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(target.data()) % kVector;
  const std::size_t head = std::min(past == 0 ? 0 : kVector - past, target.size());
  copy(source.first(head), target.first(head));
  source = source.subspan(head), target = target.subspan(head);
  for (; target.size() >= kVector; source = source.subspan(kVector), target = target.subspan(kVector)) {
    const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source.data()));
    _mm_stream_si128(reinterpret_cast<__m128i*>(target.data()), value);
  }
  _mm_sfence();  // other threads read it
#endif
  copy(source, target);
}

}  // namespace

void World::fail(const std::string& reason) {
  if (!failure.empty()) return;
  failure = reason;
  for (std::size_t rank = 0; rank < steps.size(); ++rank) runtime.poke(static_cast<int>(rank));
}

void World::fail_as_stuck() {
  std::string text = "all simulated ranks wait, and no message is under way";
  if (!ended.empty()) text += fmt::format("; {} of {} ranks have ended", ended.size(), steps.size());
  fail(text);
}

void World::end(int rank) { ended.push_back(rank); }

Group::Group(std::shared_ptr<World> world, std::vector<int> members)
    : Membership(std::move(members), [&world](int member) { return world->network.host_of(member); }),
      world_(std::move(world)),
      sequence_(static_cast<std::size_t>(size()), 0) {
  for (const Node& node : nodes()) hosts_.push_back(node.key);
  if (nodes().size() < 2) return;
  for (const Node& node : nodes()) nodes_.push_back(std::make_shared<Group>(world_, node.members));
}

std::string Group::host(int rank) const {
  return fmt::format("simulated-{}", world_->network.host_of(world_rank(rank)));
}

void Group::set_step(int rank, std::int64_t step) {
  if (!world_->failure.empty()) throw PeerFailure(world_->failure);
  world_->steps[static_cast<std::size_t>(world_rank(rank))] = step;
}

// --- Collectives -----------------------------------------------------------------------------------------------------

RendezvousPtr Group::arrive(int rank, const Collective& collective, void* part, const Action& action) {
  if (!world_->failure.empty()) throw PeerFailure(world_->failure);
  const std::uint64_t sequence = sequence_[static_cast<std::size_t>(rank)]++;
  RendezvousPtr& slot = points_[sequence];
  if (slot == nullptr) {
    slot = std::make_shared<Rendezvous>(
        Rendezvous{.name = collective.name, .parts = std::vector<void*>(members().size())});
  }
  RendezvousPtr point = slot;
  if (std::strcmp(point->name, collective.name) != 0) {
    const std::string reason = text_of_different_calls(rank, collective.name, point->name);
    world_->fail(reason);
    throw CommunicationError(reason);
  }
  point->parts[static_cast<std::size_t>(rank)] = part;
  if (++point->arrived < members().size()) return point;
  points_.erase(sequence);
  action(point->parts);
  point->parts = {};
  for (const int member : members()) world_->runtime.poke(member);  // who waits for arrivals alone goes on
  world_->runtime.at(world_->network.done(collective, size(), hosts_), [self = shared_from_this(), point] {
    point->finish();
    for (const int member : self->members()) self->world_->runtime.poke(member);
  });
  return point;
}

// --- Messages --------------------------------------------------------------------------------------------------------

RendezvousPtr Group::post(bool sends, std::span<std::byte> bytes, int rank, int peer, int tag) {
  world_->network.wait_for_start(world_rank(rank), tag);
  if (!world_->failure.empty()) throw PeerFailure(world_->failure);
  const int from = sends ? rank : peer, to = sends ? peer : rank;
  Line& line = lines_[{from, to, tag}];
  std::deque<MessagePtr>&awaited = sends ? line.unsent : line.unreceived, &own = sends ? line.unreceived : line.unsent;
  MessagePtr message;
  if (awaited.empty()) {
    message = own.emplace_back(std::make_shared<Message>());
  } else {
    message = std::move(awaited.front());
    awaited.pop_front();
  }
  if (line.unsent.empty() && line.unreceived.empty()) lines_.erase({from, to, tag});
  auto point = std::make_shared<Rendezvous>(Rendezvous{.name = sends ? "send" : "receive"});
  (sends ? message->source : message->target) = bytes;
  (sends ? message->sent : message->received) = point;
  if (sends) message->recorded = world_->network.recorded_arrival(world_rank(from), world_rank(to), tag);

  const bool both = message->sent && message->received;
  if (both && message->source.size() != message->target.size()) {
    const std::string error = text_of_different_lengths(from, message->source.size(), to, tag, message->target.size());
    for (const RendezvousPtr& side : {message->sent, message->received}) {
      if (side->done) continue;
      side->error = error;
      side->finish();
    }
    world_->runtime.poke(world_rank(peer));
    return point;
  }
  // When the sender of a recorded run went on is not recorded, but it was before the message arrived.
  const bool is_buffered = message->source.size() <= kBufferedBytes || message->recorded;
  if (sends && is_buffered) {
    message->buffered.assign(bytes.begin(), bytes.end());
    point->finish();
    carry(*message, from, to, [self = shared_from_this(), message, to] {
      message->has_arrived = true;
      self->take_buffered(*message, to);
    });
  } else if (both && is_buffered) {
    take_buffered(*message, to);
  } else if (both) {
    carry(*message, from, to, [self = shared_from_this(), message, from, to] {
      self->deliver(*message);
      self->world_->runtime.poke(self->world_rank(from));
      self->world_->runtime.poke(self->world_rank(to));
    });
  }
  return point;
}

void Group::carry(const Message& message, int from, int to, std::function<void()> arrived) {
  world_->network.carry(world_rank(from), world_rank(to), message.source.size(), message.recorded, std::move(arrived));
}

void Group::deliver(const Message& message) {
  if (message.source.size() < kBytesForThreads) {
    copy(message.source, message.target);
  } else {
    message.sent->copying = message.received->copying =
        world_->runtime.begin([source = message.source, target = message.target] { copy_long(source, target); });
  }
  message.sent->finish();
  message.received->finish();
}

/// Hands a message to whoever has posted a receive for it, once it has arrived.
void Group::take_buffered(Message& message, int to) {
  if (!message.has_arrived || !message.received || message.received->done) return;
  if (!message.buffered.empty()) copy(message.buffered, message.target);
  message.received->finish();
  world_->runtime.poke(world_rank(to));
}

// --- Waiting ---------------------------------------------------------------------------------------------------------

void Group::wait(const Rendezvous& rendezvous) {
  world_->runtime.block_until([&] { return rendezvous.done || !world_->failure.empty(); });
  check(rendezvous);
}

void Group::wait_for_arrivals(const Rendezvous& rendezvous) {
  world_->runtime.block_until(
      [&] { return rendezvous.done || rendezvous.arrived == members().size() || !world_->failure.empty(); });
}

/// A look takes simulated time: otherwise nothing would happen between two looks.
bool Group::test(const Rendezvous& rendezvous) {
  constexpr double kLook = 1e-5;
  if (!is_over(rendezvous)) world_->runtime.sleep(kLook);
  return is_over(rendezvous);
}

/// Whether it is done. \throws PeerFailure, CommunicationError
bool Group::is_over(const Rendezvous& rendezvous) const {
  if (!rendezvous.done && world_->failure.empty()) return false;
  check(rendezvous);
  return true;
}

std::vector<std::size_t> Group::wait_any(std::span<const Rendezvous* const> points,
                                         const std::function<bool()>& enough) {
  world_->runtime.block_until(
      [&] { return std::ranges::any_of(points, &Rendezvous::done) || !world_->failure.empty() || enough(); });
  std::vector<std::size_t> over;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (is_over(*points[i])) over.push_back(i);
  }
  return over;
}

void Group::watch(std::string_view, const std::function<bool()>& done) { block_until(done); }

void Group::block_until(const std::function<bool()>& done) {
  world_->runtime.block_until([&] { return done() || !world_->failure.empty(); });
  if (!world_->failure.empty()) throw PeerFailure(world_->failure);
}

std::size_t Group::ReadySet::add(RequestPtr request) {
  std::size_t number = requests_.size();
  if (free_.empty()) {
    requests_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  Rendezvous& point = static_cast<MeetingRequest<Group, std::span<std::byte>>&>(*request).rendezvous();
  point.number = number;
  if (point.done) {
    ready_->push_back(number);
  } else {
    point.told = ready_;
  }
  requests_[number] = std::move(request);
  ++used_;
  return number;
}

std::vector<std::size_t> Group::ReadySet::finish_some(const std::function<bool()>& enough) {
  group_->block_until([&] { return !ready_->empty() || enough(); });
  std::vector<std::size_t> done = std::exchange(*ready_, {});
  for (const std::size_t number : done) {
    std::exchange(requests_[number], nullptr)->wait();
    free_.push_back(number);
    --used_;
  }
  return done;
}

void Group::abandon(const Rendezvous& rendezvous) noexcept {
  if (rendezvous.copying) rendezvous.copying->join();
  if (!rendezvous.done) world_->fail(fmt::format("a rank abandoned a {} that it had started", rendezvous.name));
}

void Group::check(const Rendezvous& rendezvous) const {
  if (rendezvous.copying) rendezvous.copying->join();
  if (rendezvous.done && rendezvous.error.empty()) return;
  if (rendezvous.done) throw CommunicationError(rendezvous.error);
  throw PeerFailure(world_->failure);
}

}  // namespace unisono::comm::simulated
