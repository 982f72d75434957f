// Operations of NCCL: ranks come to a meeting, and the last one moves the data of all.
#include <algorithm>
#include <cstring>

#include "simulated_cuda/block.hpp"
#include "simulated_cuda/nccl.hpp"

namespace simulated {
namespace {

using Kind = RankOperation::Kind;

std::size_t size_of(ncclDataType_t type) {
  if (type == ncclUint8) return 1;
  return type == ncclFloat32 ? 4 : 8;
}

/// Elements that the rank gives and gets.
std::size_t sent(const RankOperation& o, int ranks) {
  return o.kind == Kind::reduce_scatter ? o.count * static_cast<std::size_t>(ranks) : o.count;
}
std::size_t received(const RankOperation& o, int ranks) {
  return o.kind == Kind::all_gather ? o.count * static_cast<std::size_t>(ranks) : o.count;
}
bool sends(const Communicator& c, const RankOperation& o) {
  return o.kind != Kind::receive && (o.kind != Kind::broadcast || o.peer == c.rank);
}

void need_memory(const Communicator& c, const void* pointer, std::size_t bytes, const char* what) {
  const Location location = machine().locate(pointer, bytes);
  if (location.home == Home::pinned || (location.home == Home::device && location.device == c.device)) return;
  fatal("the %s buffer of NCCL's rank %d, %zu bytes at %p, is not memory of its device", what, c.rank, bytes, pointer);
}

void check_memory(const Communicator& c, const RankOperation& o) {
  const auto size = size_of(o.type);
  if (sends(c, o)) need_memory(c, o.send, sent(o, c.clique->size) * size, "send");
  if (o.kind != Kind::send) need_memory(c, o.receive, received(o, c.clique->size) * size, "receive");
}

bool fit(const RankOperation& a, const RankOperation& b) {
  if (a.count != b.count || a.type != b.type) return false;
  if (a.pairwise()) return a.kind != b.kind;
  return a.kind == b.kind && a.reduction == b.reduction && (a.kind != Kind::broadcast || a.peer == b.peer);
}

/// Element by element, in the order of ranks, rounded as the type is.
template <typename T>
std::vector<T> reduced(const Meeting& meeting, std::size_t size) {
  std::vector<T> result;
  for (const auto& [rank, o] : meeting.here) {
    std::vector<T> values(static_cast<const T*>(o.send), static_cast<const T*>(o.send) + size);
    if (o.factor != 1) {
      for (T& value : values) value = static_cast<T>(o.factor * static_cast<double>(value));
    }
    if (result.empty()) {
      result = std::move(values);
      continue;
    }
    for (std::size_t i = 0; i < size; ++i) {
      result[i] = o.reduction == ncclSum ? static_cast<T>(result[i] + values[i]) : std::max(result[i], values[i]);
    }
  }
  return result;
}

template <typename T>
void reduce(const Meeting& meeting, bool scattered) {
  const std::size_t count = meeting.here.begin()->second.count;
  const auto result = reduced<T>(meeting, scattered ? count * meeting.here.size() : count);
  for (const auto& [rank, o] : meeting.here) {
    const T* from = result.data() + (scattered ? static_cast<std::size_t>(rank) * count : 0);
    std::memcpy(o.receive, from, count * sizeof(T));
  }
}

void move(const Meeting& meeting) {
  const RankOperation& first = meeting.here.begin()->second;
  const std::size_t bytes = first.count * size_of(first.type);
  switch (first.kind) {
    case Kind::all_reduce:
    case Kind::reduce_scatter: {
      const bool scattered = first.kind == Kind::reduce_scatter;
      if (first.type == ncclFloat32) reduce<float>(meeting, scattered);
      if (first.type == ncclFloat64) reduce<double>(meeting, scattered);
      if (first.type == ncclInt64) reduce<std::int64_t>(meeting, scattered);
      break;
    }
    case Kind::all_gather:
      for (const auto& [rank, from] : meeting.here) {
        for (const auto& [other, to] : meeting.here) {
          std::memmove(static_cast<std::byte*>(to.receive) + static_cast<std::size_t>(rank) * bytes, from.send, bytes);
        }
      }
      break;
    case Kind::broadcast:
      for (const auto& [rank, to] : meeting.here) std::memmove(to.receive, meeting.here.at(first.peer).send, bytes);
      break;
    case Kind::send:
    case Kind::receive: {
      const RankOperation& last = meeting.here.rbegin()->second;
      const bool ascending = first.kind == Kind::send;
      std::memmove(ascending ? last.receive : first.receive, ascending ? first.send : last.send, bytes);
      break;
    }
  }
}

std::uint32_t device_bits(const Clique& clique) {
  std::uint32_t bits = 0;
  for (const auto& rank : clique.ranks) bits |= rank ? 1U << rank->device : 0U;
  return bits;
}

bool apart(const void* a, const void* b, std::size_t a_bytes, std::size_t b_bytes) {
  const auto* x = static_cast<const std::byte*>(a);
  const auto* y = static_cast<const std::byte*>(b);
  return x + a_bytes <= y || y + b_bytes <= x;
}

}  // namespace

/// What one launch of the group remembers: the meeting of each operation.
struct GroupWork::Tickets {
  std::vector<std::map<std::uint64_t, Meeting>*> places;
  std::vector<std::uint64_t> numbers;
  std::vector<bool> came, done;
};

void GroupWork::add(std::shared_ptr<Communicator> communicator, const RankOperation& operation) {
  members_.push_back({std::move(communicator), operation});
}

std::shared_ptr<void> GroupWork::begin() const {
  auto tickets = std::make_shared<Tickets>();
  for (const auto& [c, o] : members_) {
    ++c->outstanding;
    if (!o.pairwise()) {
      tickets->places.push_back(&c->clique->collectives);
      tickets->numbers.push_back(c->next_collective++);
    } else {
      const bool sending = o.kind == Kind::send;
      const auto ends = sending ? std::pair(c->rank, o.peer) : std::pair(o.peer, c->rank);
      tickets->places.push_back(&c->clique->pairs[ends]);
      tickets->numbers.push_back(sending ? c->next_send[o.peer]++ : c->next_receive[o.peer]++);
    }
  }
  tickets->came.resize(members_.size());
  tickets->done.resize(members_.size());
  return tickets;
}

Progress GroupWork::run(Session&, void* memory) const {
  Tickets& tickets = *static_cast<Tickets*>(memory);
  bool all = true;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (tickets.done[i]) continue;
    const auto& [c, o] = members_[i];
    Meeting& meeting = (*tickets.places[i])[tickets.numbers[i]];
    const std::size_t wanted = o.pairwise() ? 2 : static_cast<std::size_t>(c->clique->size);
    if (!tickets.came[i] && !c->aborted) {
      tickets.came[i] = true;
      check_memory(*c, o);
      // To itself, a rank comes twice; the second time under a number of its own.
      const int key = meeting.here.count(c->rank) != 0 ? c->clique->size : c->rank;
      if (!meeting.here.empty() && !fit(meeting.here.begin()->second, o)) {
        fatal("NCCL's rank %d calls another operation, or one with another count, type or root, than its peers",
              c->rank);
      }
      meeting.here[key] = o;
      if (meeting.here.size() == wanted && !c->clique->aborted) {
        machine().open(device_bits(*c->clique));
        move(meeting);
        meeting.done = true;
      }
      machine().changed.notify_all();
    }
    if (!meeting.done && !c->aborted) {
      all = false;
      continue;
    }
    tickets.done[i] = true;
    --c->outstanding;
    ++machine().counts.collectives;
    if (++meeting.left == wanted) tickets.places[i]->erase(tickets.numbers[i]);
  }
  return {all, nullptr};
}

const char* objection(const Communicator& c, const RankOperation& o) {
  const Clique& clique = *c.clique;
  const bool reduces = o.kind == Kind::all_reduce || o.kind == Kind::reduce_scatter;
  const bool bytes = o.type == ncclUint8 && !reduces;
  if (!bytes && o.type != ncclFloat32 && o.type != ncclFloat64 && o.type != ncclInt64)
    return "the type is not simulated";
  if (o.reduction != ncclSum && o.reduction != ncclMax) return "the reduction is not simulated";
  if (o.peer < 0 || o.peer >= clique.size) return "there is no such peer or root";
  if (o.count == 0) return nullptr;
  if (sends(c, o) && o.send == nullptr) return "the send buffer is null";
  if (o.kind != Kind::send && o.receive == nullptr) return "the receive buffer is null";
  if (o.pairwise() || !sends(c, o)) return nullptr;
  const auto size = size_of(o.type);
  const auto part = static_cast<std::size_t>(c.rank) * o.count * size;
  const auto* send = static_cast<const std::byte*>(o.send);
  const auto* receive = static_cast<const std::byte*>(o.receive);
  const bool in_place = o.kind == Kind::all_gather       ? send == receive + part
                        : o.kind == Kind::reduce_scatter ? receive == send + part
                                                         : send == receive;
  if (in_place || apart(send, receive, sent(o, clique.size) * size, received(o, clique.size) * size)) return nullptr;
  return "the buffers overlap and are not those of an operation in place";
}

}  // namespace simulated
