#pragma once

#include <algorithm>
#include <vector>

#include "divisions.hpp"
#include "expect.hpp"
#include "unisono/comm/gather.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/nn/initialiser.hpp"
#include "unisono/optim/optimizer.hpp"

// What every kind of Holding promises, checked on ranks that are threads.

namespace unisono::test {

/// A vector that one rank holds as a whole: each number of each block has a value of its own.
inline std::vector<float> told_apart(const ParameterLayout& layout, float scale = 1) {
  std::vector<float> whole(static_cast<std::size_t>(layout.size()));
  for (std::size_t b = 0; b < layout.blocks().size(); ++b) {
    const Block& block = layout.blocks()[b];
    std::vector<float> values(static_cast<std::size_t>(block.size()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = scale * (0.3F + static_cast<float>(b) + static_cast<float>(i) / 1024);
    }
    from_canonical(block, values, part(MutableView(whole), block));
  }
  return whole;
}

/// The rank's part of a vector.
inline std::vector<float> part_of(const Holding& holding, View whole) {
  std::vector<float> own(static_cast<std::size_t>(holding.size())), canonical;
  const std::vector<Shard> all = whole_shards(holding.layout());
  for (const Shard& shard : holding.shards()) {
    canonical.resize(static_cast<std::size_t>(size_of(shard.box)));
    pack(locate(all[shard.block], shard.box), whole, canonical);
    unpack(shard.place, canonical, own);
  }
  return own;
}

inline std::vector<float> gathered(comm::Communicator& ranks, const Holding& holding, View own) {
  std::vector<float> whole(static_cast<std::size_t>(holding.layout().size()));
  comm::gather(ranks, holding, own, whole);
  return whole;
}

/// How often each float of the rank's vector is in its shards.
inline std::vector<float> uses_of(const Holding& holding) {
  std::vector<float> uses(static_cast<std::size_t>(holding.size())), packed;
  for (const Shard& shard : holding.shards()) {
    packed.resize(static_cast<std::size_t>(size_of(shard.box)));
    pack(shard.place, uses, packed);
    for (float& one : packed) ++one;
    unpack(shard.place, packed, uses);
  }
  return uses;
}

/// Its shards lie beside each other, and its ranges have all their numbers.
inline void expect_memory(const Holding& holding) {
  std::vector<float> uses = uses_of(holding);
  EXPECT(std::ranges::all_of(uses, [](float times) { return times <= 1; }));
  Index end = 0;
  for (const BlockRange& range : holding.ranges()) {
    EXPECT(range.floats.first >= end);
    EXPECT(range.floats.last > range.floats.first);
    end = range.floats.last;
    std::ranges::fill(part(MutableView(uses), range.floats), 0.0F);
  }
  EXPECT(end <= holding.size());
  EXPECT(std::ranges::all_of(uses, [](float times) { return times == 0; }));
}

/// Of a rank's part of the vector, each number of a range is one of the range's block, unless rows are interleaved.
inline void expect_blocks(const Holding& holding) {
  for (const Shard& shard : holding.shards()) {
    if (holding.layout().blocks()[shard.block].stride != 0) continue;
    Index last = shard.place.offset;
    for (std::size_t axis = 0; axis < shard.place.counts.size(); ++axis) {
      last += (shard.place.counts[axis] - 1) * shard.place.strides[axis];
    }
    const std::vector<BlockRange> ranges = holding.ranges();
    EXPECT(std::ranges::any_of(ranges, [&](const BlockRange& range) {
      return range.block == shard.block && range.floats.first <= shard.place.offset && last < range.floats.last;
    }));
  }
}

/// Of each number, one rank has the copy that is written to files.
inline void expect_written_once(comm::Communicator& ranks, const Holding& holding) {
  const ParameterLayout& layout = holding.layout();
  std::vector<double> times(static_cast<std::size_t>(layout.size()));
  const std::vector<Shard> all = whole_shards(layout);
  for (const Shard& shard : holding.shards()) {
    if (holding.held_by_all() ? !ranks.is_root() : shard.copy != 0) continue;
    std::vector<float> whole(times.size());
    const std::vector<float> ones(static_cast<std::size_t>(size_of(shard.box)), 1.0F);
    unpack(locate(all[shard.block], shard.box), ones, whole);
    for (std::size_t i = 0; i < times.size(); ++i) times[i] += whole[i];
  }
  ranks.allreduce_sum(std::span(times));
  const std::vector<float> numbers = uses_of(WholeHolding(layout));
  EXPECT(std::ranges::equal(times, numbers));
}

/// What ranks hold together trains, and is initialised, as where one rank holds it.
inline void expect_same_as_whole(comm::Communicator& ranks, const Holding& holding) {
  const ParameterLayout& layout = holding.layout();
  const WholeHolding alone(layout);
  const auto cpu = kernels::make_cpu_backend(1);
  std::vector<float> whole = told_apart(layout), own = part_of(holding, whole);
  EXPECT(gathered(ranks, holding, own) == whole);
  EXPECT(optim::squared_norm(holding, own, *cpu) == cpu->squared_norm(whole));

  // Decay is of all blocks, since blocks of interleaved rows share their floats in each kind's own way.
  const optim::OptimizerSettings rule{.kind = "adamw", .weight_decay = 0.01, .decay = DecayRule::all, .clip_norm = 0.5};
  const std::vector<float> gradient = told_apart(layout, -0.7F), own_gradient = part_of(holding, gradient);
  const auto one = optim::make_optimizer(rule, alone, *cpu), one_of_many = optim::make_optimizer(rule, holding, *cpu);
  for (int step = 0; step < 2; ++step) {
    one->step(whole, gradient, 0.1);
    one_of_many->step(own, own_gradient, 0.1);
  }
  EXPECT(gathered(ranks, holding, own) == whole);
  EXPECT(one->state().size() == 2);
  for (std::size_t i = 0; i < one->state().size(); ++i) {
    EXPECT(one_of_many->state()[i].values.size() == holding.size());
    const std::vector<float> state = gathered(ranks, holding, one_of_many->state()[i].values.view());
    EXPECT(std::ranges::equal(state, one->state()[i].values.view()));
  }

  nn::initialise(layout, 5, whole);
  nn::initialise(holding, 5, own);
  EXPECT(gathered(ranks, holding, own) == whole);
}

/// \param ranks those that hold the vector
inline void expect_holding(comm::Communicator& ranks, const Holding& holding) {
  expect_memory(holding);
  expect_blocks(holding);
  expect_written_once(ranks, holding);
  expect_same_as_whole(ranks, holding);
  const auto hashes = ranks.all_gather_vectors(std::vector<std::uint64_t>{holding.hash()});
  EXPECT(std::ranges::all_of(hashes, [&](const auto& one) { return one == hashes.front(); }));
}

}  // namespace unisono::test
