#include "unisono/tensor/layout.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "unisono/base/errors.hpp"
#include "unisono/base/hash.hpp"

namespace unisono {
namespace {

constexpr Index kAlignmentFloats = kAlignmentBytes / sizeof(float);
constexpr double kMostParameters = 0x1p48;  // of a block: more than any memory holds, and their bytes can be counted

/// Calls visit(stored position, canonical position) for every element of a block, in stored order.
template <typename Visit>
void for_each_element(const Block& block, Visit visit) {
  const std::size_t rank = block.shape.size();
  std::vector<int> axes = block.axes;
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::vector<Index> canonical_stride(rank, 1);
  for (std::size_t i = rank; i-- > 1;) canonical_stride[i - 1] = canonical_stride[i] * block.shape[i];

  std::vector<Index> extent(rank), stride(rank), at(rank, 0);  // of the stored axes
  for (std::size_t i = 0; i < rank; ++i) {
    extent[i] = block.shape[static_cast<std::size_t>(axes[i])];
    stride[i] = canonical_stride[static_cast<std::size_t>(axes[i])];
  }
  Index canonical = 0;
  for (Index stored = 0; stored < block.size(); ++stored) {
    visit(static_cast<std::size_t>(stored), static_cast<std::size_t>(canonical));
    for (std::size_t i = rank; i-- > 0;) {  // an odometer over the stored axes
      canonical += stride[i];
      if (++at[i] < extent[i]) break;
      canonical -= stride[i] * extent[i];
      at[i] = 0;
    }
  }
}

}  // namespace

Index Block::size() const { return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>()); }

Index ParameterLayout::add(Block block) {
  double parameters = 1;
  for (const Index extent : block.shape) parameters *= static_cast<double>(extent);
  if (parameters > kMostParameters) {
    throw ConfigError(fmt::format("'{}' would hold {:.2g} parameters, of {} numbers; make it smaller", block.name,
                                  parameters, fmt::join(block.shape, " × ")));
  }
  block.offset = size_;
  parameters_ += block.size();
  size_ += (block.size() + kAlignmentFloats - 1) / kAlignmentFloats * kAlignmentFloats;
  blocks_.push_back(std::move(block));
  return blocks_.back().offset;
}

const Block& ParameterLayout::block(const std::string& name) const {
  const auto found =
      std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) { return block.name == name; });
  if (found == blocks_.end()) throw std::out_of_range(fmt::format("no block '{}'", name));
  return *found;
}

std::uint64_t ParameterLayout::hash() const {
  std::string text;
  for (const Block& block : blocks_) {
    text += fmt::format("{}[{}]({})@{};", block.name, fmt::join(block.shape, ","), fmt::join(block.axes, ","),
                        block.offset);
  }
  return hash_bytes(text);
}

void to_canonical(const Block& block, View stored, MutableView canonical) {
  for_each_element(block, [&](std::size_t s, std::size_t c) { canonical[c] = stored[s]; });
}

void from_canonical(const Block& block, View canonical, MutableView stored) {
  for_each_element(block, [&](std::size_t s, std::size_t c) { stored[s] = canonical[c]; });
}

}  // namespace unisono
