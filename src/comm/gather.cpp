#include "unisono/comm/gather.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace unisono::comm {
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

MutableView next_of(MutableView& values, Index size) {
  const MutableView first = values.first(static_cast<std::size_t>(size));
  values = values.subspan(first.size());
  return first;
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
