#include "unisono/comm/redistribute.hpp"

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <vector>

namespace unisono::comm {
namespace {

constexpr int kTag = 97;

/// One box of numbers that goes from one rank to another, or stays on one rank: where it lies in both vectors.
struct Transfer {
  LocalBox given, taken;
  Index size = 0;
};

/// Whether a rank of the group holds anything; the group may have more ranks than the map.
bool holds(const ShardMap& map, int rank) { return rank < map.ranks() && !map.shards_of(rank).empty(); }

/// All transfers from `giver` to `taker`, in an order that is the same on both. \param any_copy everything that both
/// hold; else only the copy that the taker reads from (ShardMap::copy_to_read)
std::vector<Transfer> transfers(const ShardMap& from, int giver, const ShardMap& to, int taker, bool any_copy) {
  std::vector<Transfer> all;
  if (!holds(from, giver) || !holds(to, taker)) return all;
  for (const Shard& taken : to.shards_of(taker)) {
    const int copy = from.copy_to_read(taker, taken.block);
    for (const Shard& given : from.shards_of(giver)) {
      if (given.block != taken.block || (!any_copy && given.copy != copy)) continue;
      const auto box = intersection(given.box, taken.box);
      if (box) all.push_back({locate(given, *box), locate(taken, *box), size_of(*box)});
    }
  }
  return all;
}

Index size_of(const std::vector<Transfer>& transfers) {
  Index size = 0;
  for (const Transfer& transfer : transfers) size += transfer.size;
  return size;
}

MutableView next_of(MutableView& values, Index size) {
  const MutableView first = values.first(static_cast<std::size_t>(size));
  values = values.subspan(first.size());
  return first;
}

void copy(const std::vector<Transfer>& transfers, View given, MutableView taken) {
  std::vector<float> packed;
  for (const Transfer& transfer : transfers) {
    packed.resize(static_cast<std::size_t>(transfer.size));
    pack(transfer.given, given, packed);
    unpack(transfer.taken, packed, taken);
  }
}

/// A message under way. It must not be moved in memory.
struct Message {
  std::vector<Transfer> transfers;
  std::vector<float> values;
  RequestPtr request;
};

void require_equal_layouts(const ShardMap& from, const ShardMap& to) {
  if (from.layout().hash() != to.layout().hash()) throw std::logic_error("two divisions of different vectors");
}

}  // namespace

void redistribute(Communicator& ranks, const ShardMap& from, View given, const ShardMap& to, MutableView taken) {
  require_equal_layouts(from, to);
  const int own = ranks.rank();
  std::deque<Message> received, sent;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    if (peer == own) continue;
    auto parts = transfers(from, peer, to, own, false);
    if (parts.empty()) continue;
    std::vector<float> values(static_cast<std::size_t>(size_of(parts)));
    Message& message = received.emplace_back(Message{std::move(parts), std::move(values), nullptr});
    message.request = ranks.start_receive(std::as_writable_bytes(std::span(message.values)), peer, kTag);
  }
  for (int peer = 0; peer < ranks.size(); ++peer) {
    if (peer == own) continue;
    const auto parts = transfers(from, own, to, peer, false);
    if (parts.empty()) continue;
    Message& message = sent.emplace_back(Message{{}, std::vector<float>(static_cast<std::size_t>(size_of(parts))), {}});
    MutableView rest = message.values;
    for (const Transfer& part : parts) pack(part.given, given, next_of(rest, part.size));
    message.request = ranks.start_send(std::as_bytes(std::span(message.values)), peer, kTag);
  }
  copy(transfers(from, own, to, own, false), given, taken);
  for (Message& message : received) {
    message.request->wait();
    MutableView rest = message.values;
    for (const Transfer& part : message.transfers) unpack(part.taken, next_of(rest, part.size), taken);
  }
  for (Message& message : sent) message.request->wait();
}

void copy_common(const ShardMap& from, int given_rank, View given, const ShardMap& to, int taken_rank,
                 MutableView taken) {
  require_equal_layouts(from, to);
  copy(transfers(from, given_rank, to, taken_rank, true), given, taken);
}

namespace {

/// Boxes as integers: of each its block, and first, count and step of each axis.
std::vector<Index> described(const std::vector<Shard>& shards) {
  std::vector<Index> numbers;
  for (const Shard& shard : shards) {
    numbers.push_back(static_cast<Index>(shard.block));
    for (const AxisRange& range : shard.box) numbers.insert(numbers.end(), {range.first, range.count, range.step});
  }
  return numbers;
}

/// The reverse, with the places in a vector that holds all of every block.
std::vector<Shard> in_whole_vector(const std::vector<Index>& numbers, const std::vector<Shard>& whole) {
  std::vector<Shard> shards;
  for (auto next = numbers.begin(); next != numbers.end();) {
    Shard shard{.block = static_cast<std::size_t>(*next++), .box = {}};
    const Shard& all = whole.at(shard.block);
    for (std::size_t axis = 0; axis < all.box.size(); ++axis, next += 3) {
      shard.box.push_back({.first = next[0], .count = next[1], .step = next[2]});
    }
    shard.place = locate(all, shard.box);
    shards.push_back(std::move(shard));
  }
  return shards;
}

Index size_of(const std::vector<Shard>& shards) {
  Index size = 0;
  for (const Shard& shard : shards) size += unisono::size_of(shard.box);
  return size;
}

}  // namespace

void gather(Communicator& ranks, const Holding& holding, View own, MutableView whole) {
  if (holding.held_by_all()) {
    std::ranges::copy(own, whole.begin());
    return;
  }
  std::vector<Shard> given = holding.shards();
  std::erase_if(given, [](const Shard& shard) { return shard.copy != 0; });
  const auto descriptions = ranks.all_gather_vectors(described(given));
  const std::vector<Shard> all = whole_shards(holding.layout());
  std::vector<float> values;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<Shard> shards = in_whole_vector(descriptions[static_cast<std::size_t>(rank)], all);
    values.resize(static_cast<std::size_t>(size_of(shards)));
    if (values.empty()) continue;
    MutableView rest = values;
    if (rank == ranks.rank()) {
      for (const Shard& shard : given) pack(shard.place, own, next_of(rest, unisono::size_of(shard.box)));
    }
    ranks.broadcast(std::as_writable_bytes(std::span(values)), rank);
    rest = values;
    for (const Shard& shard : shards) unpack(shard.place, next_of(rest, unisono::size_of(shard.box)), whole);
  }
}

void CommunicatorSquares::sum(std::span<ExactSquares> sums) {
  std::vector<std::int64_t> words;
  words.reserve(sums.size() * ExactSquares::kWords);
  for (const ExactSquares& one : sums) {
    const auto own = one.words();
    words.insert(words.end(), own.begin(), own.end());
  }
  ranks_.allreduce_sum(std::span(words));
  auto next = words.begin();
  for (ExactSquares& one : sums) {
    std::array<std::int64_t, ExactSquares::kWords> all{};
    std::copy_n(next, all.size(), all.begin());
    next += all.size();
    one = ExactSquares::of_words(all);
  }
}

}  // namespace unisono::comm
