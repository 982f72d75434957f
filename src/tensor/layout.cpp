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

/// Calls copy(stored position, canonical position, numbers) for every row of a block with a stride.
template <typename Copy>
void for_each_row(const Block& block, Copy copy) {
  const auto row = static_cast<std::size_t>(block.row_size()), stride = static_cast<std::size_t>(block.stride);
  const auto rows = static_cast<std::size_t>(block.shape.front());
  for (std::size_t i = 0; i < rows; ++i) copy(i * stride, i * row, row);
}

void require_possible(const std::string& name, const std::vector<Index>& shape) {
  double parameters = 1;
  for (const Index extent : shape) parameters *= static_cast<double>(extent);
  if (parameters <= kMostParameters) return;
  throw ConfigError(fmt::format("'{}' would hold {:.2g} parameters, of {} numbers; make it smaller", name, parameters,
                                fmt::join(shape, " × ")));
}

}  // namespace

Index Block::size() const { return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>()); }

Index Block::row_size() const { return shape.empty() || shape.front() == 0 ? 0 : size() / shape.front(); }

Index Block::stored_size() const {
  return stride == 0 || shape.front() == 0 ? size() : (shape.front() - 1) * stride + row_size();
}

Index ParameterLayout::add(Block block) {
  require_possible(block.name, block.shape);
  block.offset = size_;
  if (block.role != Role::state) parameters_ += block.size();
  size_ += round_up_to_line(block.size());
  blocks_.push_back(std::move(block));
  return blocks_.back().offset;
}

Index ParameterLayout::add_rows(std::vector<RowPart> parts, Index stride) {
  const Index first = size_, rows = parts.front().block.shape.front();
  require_possible(parts.front().block.name, {rows, stride});
  for (RowPart& part : parts) {
    part.block.offset = first + part.first;
    part.block.stride = stride;
    if (part.block.role != Role::state) parameters_ += part.block.size();
    blocks_.push_back(std::move(part.block));
  }
  size_ += rows * stride;
  return first;
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
    text += fmt::format("{}[{}]({})@{}+{};", block.name, fmt::join(block.shape, ","), fmt::join(block.axes, ","),
                        block.offset, block.stride);
  }
  return hash_bytes(text);
}

void to_canonical(const Block& block, View stored, MutableView canonical) {
  if (block.stride != 0) {
    for_each_row(block, [&](std::size_t s, std::size_t c, std::size_t n) {
      std::copy_n(stored.data() + s, n, canonical.data() + c);
    });
    return;
  }
  for_each_element(block, [&](std::size_t s, std::size_t c) { canonical[c] = stored[s]; });
}

void from_canonical(const Block& block, View canonical, MutableView stored) {
  if (block.stride != 0) {
    for_each_row(block, [&](std::size_t s, std::size_t c, std::size_t n) {
      std::copy_n(canonical.data() + c, n, stored.data() + s);
    });
    return;
  }
  for_each_element(block, [&](std::size_t s, std::size_t c) { stored[s] = canonical[c]; });
}

}  // namespace unisono
