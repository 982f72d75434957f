#pragma once

#include <deque>
#include <stdexcept>
#include <utility>
#include <vector>

#include "divisions.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::test {

/// The copy from which a rank reads a block when θ is redistributed: its own where it holds a shard of the block, to
/// send as little as possible; else copy rank mod map.copies().
inline int copy_to_read(const ShardMap& map, int rank, std::size_t block) {
  if (rank < map.ranks()) {
    for (const Shard& shard : map.shards_of(rank)) {
      if (shard.block == block) return shard.copy;
    }
  }
  return rank % map.copies();
}

constexpr int kMoveTag = 97;

/// One box of numbers that goes from one rank to another, or stays on one rank: where it lies in both vectors.
struct Transfer {
  LocalBox given, taken;
  Index size = 0;
};

/// Whether a rank of the group holds anything; the group may have more ranks than the map.
inline bool holds(const ShardMap& map, int rank) { return rank < map.ranks() && !map.shards_of(rank).empty(); }

/// All transfers from `giver` to `taker`, in an order that is the same on both. \param any_copy everything that both
/// hold; else only the copy that the taker reads from (copy_to_read)
inline std::vector<Transfer> transfers(const ShardMap& from, int giver, const ShardMap& to, int taker, bool any_copy) {
  std::vector<Transfer> all;
  if (!holds(from, giver) || !holds(to, taker)) return all;
  for (const Shard& taken : to.shards_of(taker)) {
    const int copy = copy_to_read(from, taker, taken.block);
    for (const Shard& given : from.shards_of(giver)) {
      if (given.block != taken.block || (!any_copy && given.copy != copy)) continue;
      const auto box = intersection(given.box, taken.box);
      if (box) all.push_back({locate(given, *box), locate(taken, *box), size_of(*box)});
    }
  }
  return all;
}

inline Index size_of(const std::vector<Transfer>& transfers) {
  Index size = 0;
  for (const Transfer& transfer : transfers) size += transfer.size;
  return size;
}

inline MutableView next_of(MutableView& values, Index size) {
  const MutableView first = values.first(static_cast<std::size_t>(size));
  values = values.subspan(first.size());
  return first;
}

inline void copy(const std::vector<Transfer>& transfers, View given, MutableView taken) {
  std::vector<float> packed;
  for (const Transfer& transfer : transfers) {
    packed.resize(static_cast<std::size_t>(transfer.size));
    pack(transfer.given, given, packed);
    unpack(transfer.taken, packed, taken);
  }
}

/// A message under way. It must not be moved in memory.
struct MovedShards {
  std::vector<Transfer> transfers;
  std::vector<float> values;
  comm::RequestPtr request;
};

inline void require_equal_layouts(const ShardMap& from, const ShardMap& to) {
  if (from.layout().hash() != to.layout().hash()) throw std::logic_error("two divisions of different vectors");
}

/// Redistributes a sharded vector: `to`'s shards ← `from`'s. Collective.
///   A rank copies numbers that it holds already within its own memory, and receives each other number once; each pair
///   of ranks exchanges at most one message. In addition to the vectors, a rank needs memory for what it sends and
///   receives.
/// \param from  equal layouts, and as many ranks as the group or fewer; the others hold nothing
/// \param given [from.local(rank).size()] what this rank holds; in plain memory, as `taken` is
/// \param taken [to.local(rank).size()] overwritten, except the floats between blocks
inline void redistribute(comm::Communicator& ranks, const ShardMap& from, View given, const ShardMap& to,
                         MutableView taken) {
  require_equal_layouts(from, to);
  const int own = ranks.rank();
  std::deque<MovedShards> received, sent;
  for (int peer = 0; peer < ranks.size(); ++peer) {
    if (peer == own) continue;
    auto parts = transfers(from, peer, to, own, false);
    if (parts.empty()) continue;
    std::vector<float> values(static_cast<std::size_t>(size_of(parts)));
    MovedShards& message = received.emplace_back(MovedShards{std::move(parts), std::move(values), nullptr});
    message.request = ranks.start_receive(std::as_writable_bytes(std::span(message.values)), peer, kMoveTag);
  }
  for (int peer = 0; peer < ranks.size(); ++peer) {
    if (peer == own) continue;
    const auto parts = transfers(from, own, to, peer, false);
    if (parts.empty()) continue;
    MovedShards& message =
        sent.emplace_back(MovedShards{{}, std::vector<float>(static_cast<std::size_t>(size_of(parts))), {}});
    MutableView rest = message.values;
    for (const Transfer& part : parts) pack(part.given, given, next_of(rest, part.size));
    message.request = ranks.start_send(std::as_bytes(std::span(message.values)), peer, kMoveTag);
  }
  copy(transfers(from, own, to, own, false), given, taken);
  for (MovedShards& message : received) {
    message.request->wait();
    MutableView rest = message.values;
    for (const Transfer& part : message.transfers) unpack(part.taken, next_of(rest, part.size), taken);
  }
  for (MovedShards& message : sent) message.request->wait();
}

/// Copies, within one process, the numbers that are both in rank `given_rank`'s vector and in `taken_rank`'s. For a
/// vector that holds all of θ, use whole for one rank.
inline void copy_common(const ShardMap& from, int given_rank, View given, const ShardMap& to, int taken_rank,
                        MutableView taken) {
  require_equal_layouts(from, to);
  copy(transfers(from, given_rank, to, taken_rank, true), given, taken);
}

}  // namespace unisono::test
