#include "unisono/tensor/layout.hpp"

#include <fnmatch.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono {
namespace {

constexpr double kMostParameters = 0x1p48;  // of a block: more than any memory holds, and their bytes can be counted

/// Calls copy(stored position, canonical position, count) for runs that are contiguous in both; `size` numbers in all.
template <typename Copy>
void for_each_run(const Block& block, std::size_t size, Copy copy) {
  const std::vector<Index> stride = stored_strides(block);
  std::vector<Index> at(stride.size(), 0);
  const bool whole_rows = block.axes.empty() && !stride.empty();
  const std::size_t run = whole_rows ? static_cast<std::size_t>(block.row_size()) : 1;
  Index stored = 0;
  for (std::size_t canonical = 0; canonical < size; canonical += run) {
    copy(static_cast<std::size_t>(stored), canonical, run);
    for (std::size_t i = whole_rows ? 1 : stride.size(); i-- > 0;) {  // an odometer over the canonical axes
      stored += stride[i];
      if (++at[i] < block.shape[i]) break;
      stored -= stride[i] * block.shape[i];
      at[i] = 0;
    }
  }
}

void require_possible(const std::string& name, const std::vector<Index>& shape) {
  double parameters = 1;
  for (const Index extent : shape) parameters *= static_cast<double>(extent);
  if (parameters <= kMostParameters) return;
  throw ConfigError(fmt::format("'{}' would hold {:.2g} parameters, of {} numbers; make it smaller", name, parameters,
                                fmt::join(shape, " × ")));
}

}  // namespace

std::vector<Index> stored_strides(const Block& block) {
  std::vector<Index> strides(block.shape.size());
  Index floats = 1;
  for (std::size_t i = block.shape.size(); i-- > 0;) {  // the innermost stored axis first
    const std::size_t axis = block.axes.empty() ? i : static_cast<std::size_t>(block.axes[i]);
    strides[axis] = floats;
    floats *= block.shape[axis];
  }
  if (block.stride != 0) strides.front() = block.stride;
  return strides;
}

Index Block::size() const { return std::accumulate(shape.begin(), shape.end(), Index{1}, std::multiplies<>()); }

Index Block::row_size() const { return shape.empty() || shape.front() == 0 ? 0 : size() / shape.front(); }

Index Block::row_stride() const { return shape.empty() ? 0 : stored_strides(*this).front(); }

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

Index ParameterLayout::add_rows(std::vector<InterleavedBlock> parts, Index stride) {
  const Index first = size_, rows = parts.front().block.shape.front();
  require_possible(parts.front().block.name, {rows, stride});
  for (InterleavedBlock& part : parts) {
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

namespace {

/// "residual1.convolution1.weight" by itself, as "residual1.convolution1" or as "residual1".
bool fits(const std::string& pattern, const std::string& name) {
  for (auto end = name.size(); end != std::string::npos && end > 0; end = name.rfind('.', end - 1)) {
    if (fnmatch(pattern.c_str(), name.substr(0, end).c_str(), 0) == 0) return true;
  }
  return false;
}

}  // namespace

std::vector<std::size_t> ParameterLayout::matching(const std::string& pattern) const {
  std::vector<std::size_t> fitting;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (fits(pattern, blocks_[i].name)) fitting.push_back(i);
  }
  return fitting;
}

int ParameterLayout::freeze(const std::string& pattern) {
  const std::vector<std::size_t> fitting = matching(pattern);
  for (const std::size_t i : fitting) blocks_[i].frozen = true;
  return static_cast<int>(fitting.size());
}

std::vector<FloatRange> ParameterLayout::trainable() const {
  if (std::none_of(blocks_.begin(), blocks_.end(), [](const Block& block) { return block.frozen; })) {
    return {{0, size_}};
  }
  std::vector<FloatRange> segments;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    if (blocks_[i].frozen) continue;
    const Index last = i + 1 < blocks_.size() ? blocks_[i + 1].offset : size_;
    if (!segments.empty() && segments.back().last == blocks_[i].offset) {
      segments.back().last = last;
    } else {
      segments.push_back({blocks_[i].offset, last});
    }
  }
  return segments;
}

std::uint64_t ParameterLayout::hash() const {
  std::string text;
  for (const Block& block : blocks_) {
    text += fmt::format("{}[{}]({})@{}+{};", block.name, fmt::join(block.shape, ","), fmt::join(block.axes, ","),
                        block.offset, block.stride);
    for (const AxisRange& range : block.cut.ranges) {
      text += fmt::format("/{}:{}+{}*{}", block.cut.axis, range.first, range.count, range.step);
    }
  }
  return hash_bytes(text);
}

void to_canonical(const Block& block, View stored, MutableView canonical) {
  for_each_run(block, canonical.size(), [&](std::size_t s, std::size_t c, std::size_t n) {
    std::copy_n(stored.data() + s, n, canonical.data() + c);
  });
}

void from_canonical(const Block& block, View canonical, MutableView stored) {
  for_each_run(block, canonical.size(), [&](std::size_t s, std::size_t c, std::size_t n) {
    std::copy_n(canonical.data() + c, n, stored.data() + s);
  });
}

std::vector<FloatRange> gaps_between(const std::vector<FloatRange>& ranges, Index size) {
  std::vector<FloatRange> gaps;
  Index first = 0;
  for (const FloatRange& range : ranges) {
    if (first < range.first) gaps.push_back({first, range.first});
    first = range.last;
  }
  if (first < size) gaps.push_back({first, size});
  return gaps;
}

}  // namespace unisono
