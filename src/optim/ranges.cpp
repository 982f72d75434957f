#include "ranges.hpp"

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

}  // namespace unisono::optim
