#include "divided_sums.hpp"

#include <algorithm>

#include "unisono/optim/optimizer.hpp"

namespace unisono::optim {
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
    : own_(holding.ranges()), blocks_(holding.layout().blocks().size()), ranks_(*holding.squares()) {}

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
  for (const FloatRange& range : joined(own_)) terms.push_back({&add, {.first = range.first, .last = range.last}, 0});
  return totals(1, terms).front();
}

void DividedSums::of_blocks(std::span<const kernels::UpdateRange> ranges, std::initializer_list<Vector> vectors) {
  std::vector<Term> terms;
  std::vector<std::size_t> blocks(ranges.size());  // of the ranges
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (!ranges[i].adapted) continue;
    const auto own = std::ranges::find(own_, ranges[i].first, [](const BlockRange& one) { return one.floats.first; });
    blocks[i] = own->block;
    std::size_t sum = own->block;
    for (const Vector& vector : vectors) {
      terms.push_back({&vector.add, ranges[i], sum});
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
