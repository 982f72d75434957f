#include "divided_sums.hpp"

#include <algorithm>

#include "unisono/optim/norm.hpp"

namespace unisono::optim {
namespace {

/// The part of a block, up to the next one, that lies in a range of θ.
struct CutBlock {
  std::size_t block;  ///< its number in the layout
  FloatRange part;
};

std::vector<CutBlock> blocks_in(const ParameterLayout& layout, const FloatRange& range) {
  std::vector<CutBlock> cut;
  const std::vector<Block>& blocks = layout.blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Index next = i + 1 < blocks.size() ? blocks[i + 1].offset : layout.size();
    const FloatRange part{std::max(range.first, blocks[i].offset), std::min(range.last, next)};
    if (part.first < part.last) cut.push_back({i, part});
  }
  return cut;
}

}  // namespace

std::vector<kernels::UpdateRange> make_ranges(const ParameterLayout& layout, const RangeRules& rules) {
  const std::vector<Block>& blocks = layout.blocks();
  std::vector<kernels::UpdateRange> ranges;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i].frozen) continue;
    const bool weight = blocks[i].role == Role::weight;
    const kernels::UpdateRange range{.first = blocks[i].offset,
                                     .last = i + 1 < blocks.size() ? blocks[i + 1].offset : layout.size(),
                                     .decays = rules.decay && (weight || rules.decay_biases_and_norms),
                                     .adapted = rules.adapt_weights && weight};
    const bool merges = !ranges.empty() && ranges.back().last == range.first && !range.adapted &&
                        !ranges.back().adapted && range.decays == ranges.back().decays;
    if (merges) {
      ranges.back().last = range.last;
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

bool is_divided(const ShardMap& map) {
  for (int rank = 0; rank < map.ranks(); ++rank) {
    if (map.local(rank).parameters() < map.layout().parameters()) return true;
  }
  return false;
}

ParameterLayout layout_of_ranges(const SharedParameters& parameters) {
  ParameterLayout local;
  for (const FloatRange& range : parameters.ranges) {
    std::vector<RowSlice> parts;  // of one row, in which blocks may begin anywhere
    for (const auto& [number, part] : blocks_in(parameters.layout, range)) {
      const Block& block = parameters.layout.blocks()[number];
      parts.push_back(
          {{.name = block.name, .shape = {1, part.last - part.first}, .role = block.role, .frozen = block.frozen},
           part.first - range.first});
    }
    local.add_rows(std::move(parts), range.last - range.first);
  }
  return local;
}

ParameterLayout layout_of(const Holding& holding) {
  std::vector<RowSlice> parts;  // of one row, in which blocks may begin anywhere
  for (const BlockRange& range : holding.ranges()) {
    const Block& block = holding.layout().blocks()[range.block];
    const Index count = range.floats.last - range.floats.first;
    parts.push_back(
        {{.name = block.name, .shape = {1, count}, .role = block.role, .frozen = block.frozen}, range.floats.first});
  }
  ParameterLayout local;
  if (!parts.empty()) local.add_rows(std::move(parts), holding.size());
  return local;
}

DividedSums::DividedSums(const Holding& holding)
    : blocks_(holding.layout().blocks().size()), ranks_(*holding.squares()) {
  for (const BlockRange& range : holding.ranges()) {
    places_.push_back(
        {.range = {.first = range.floats.first, .last = range.floats.last}, .block = range.block, .counts = true});
  }
}

DividedSums::DividedSums(const SharedParameters& parameters)
    : blocks_(parameters.all_blocks), ranks_(parameters.ranks) {
  Index begin = 0;  // of the range, in this rank's vectors
  for (const FloatRange& range : parameters.ranges) {
    for (const auto& [number, part] : blocks_in(parameters.layout, range)) {
      places_.push_back({.range = {.first = begin + part.first - range.first, .last = begin + part.last - range.first},
                         .block = parameters.blocks[number],
                         .counts = true});
    }
    begin += range.last - range.first;
  }
}

DividedSums::DividedSums(const DividedParameters& parameters)
    : blocks_(parameters.map.layout().blocks().size()), ranks_(parameters.ranks) {
  const ParameterLayout& local = parameters.map.local(parameters.rank);
  const std::vector<Shard>& shards = parameters.map.shards_of(parameters.rank);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const Index next = i + 1 < shards.size() ? local.blocks()[i + 1].offset : local.size();
    places_.push_back({.range = {.first = local.blocks()[i].offset, .last = next},
                       .block = shards[i].block,
                       .counts = shards[i].copy == 0});
  }
}

std::vector<double> DividedSums::totals(std::size_t count, const std::vector<Term>& terms) {
  std::vector<double> values(count);
  std::vector<char> open(count, 1);
  for (const bool exactly : {false, true}) {
    std::vector<ExactSquares> sums(count);
    for (const Term& term : terms) {
      if (open[term.sum] != 0) (*term.add)(term.range, exactly, sums[term.sum]);
    }
    ranks_.sum(sums);
    for (std::size_t i = 0; i < count; ++i) {
      if (open[i] == 0) continue;
      const auto settled = exactly ? sums[i].value() : sums[i].settled_value();
      if (settled) values[i] = *settled;
      open[i] = settled ? 0 : 1;
    }
    if (std::ranges::find(open, 1) == open.end()) break;
  }
  return values;
}

double DividedSums::whole(const Add& add) {
  std::vector<Term> terms;
  for (const Place& place : places_) {
    if (!place.counts) continue;
    if (!terms.empty() && terms.back().range.last == place.range.first) {
      terms.back().range.last = place.range.last;
    } else {
      terms.push_back({&add, place.range, 0});
    }
  }
  return totals(1, terms).front();
}

void DividedSums::of_blocks(std::span<const kernels::UpdateRange> ranges, std::initializer_list<Vector> vectors) {
  std::vector<Term> terms;
  std::vector<std::size_t> blocks(ranges.size());  // of the ranges
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (!ranges[i].adapted) continue;
    const auto place = std::ranges::find(places_, ranges[i].first, [](const Place& one) { return one.range.first; });
    blocks[i] = place->block;
    std::size_t sum = place->block;
    for (const Vector& vector : vectors) {
      if (place->counts) terms.push_back({&vector.add, ranges[i], sum});
      sum += blocks_;
    }
  }
  const std::vector<double> values = totals(blocks_ * vectors.size(), terms);
  std::size_t first = 0;
  for (const Vector& vector : vectors) {
    for (std::size_t i = 0; i < ranges.size(); ++i) vector.norms[i] = ranges[i].adapted ? values[first + blocks[i]] : 0;
    first += blocks_;
  }
}

double squared_norm(const Holding& holding, View vector, kernels::VectorKernels& kernels) {
  if (holding.squares() == nullptr) return kernels.squared_norm(vector);
  if (kernels.device() == nullptr) {
    return DividedSums(holding).whole([&](const kernels::UpdateRange& range, bool exactly, ExactSquares& sum) {
      kernels.sum_squares(vector, {&range, 1}, exactly, {&sum, 1});
    });
  }
  double own = 0;
  for (const FloatRange& range : joined(holding.ranges())) own += kernels.squared_norm(part(vector, range));
  return holding.squares()->sum(own);
}

}  // namespace unisono::optim
