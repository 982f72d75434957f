#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// What a block of parameters is: weight decay leaves biases and norms out, LARS and LAMB adapt weights alone. A state
/// is no parameter, but what an update rule keeps beside those that it updates in place.
enum class Role { weight, bias, norm, statistic, state };

/// What a block's first values are drawn from; the formulas are in nn/initialiser.cpp.
enum class Initialiser {
  he_normal,
  he_uniform,
  glorot_normal,
  glorot_uniform,
  lecun_normal,
  lecun_uniform,
  normal,
  uniform,
  zeros,
  ones
};

/// One tensor inside the contiguous vector θ (or inside the vector of running statistics).
struct Block {
  std::string name;          ///< "convolution1.weight"
  std::vector<Index> shape;  ///< canonical, row-major: [O, I, KH, KW] for a convolution, [O, C, H, W] for a dense layer
  /// Stored axis i is canonical axis axes[i]; {2, 3, 0, 1} stores [KH, KW, O, I]; empty: canonical.
  std::vector<int> axes = {};
  /// Floats from one row along the first axis to the next, where rows of several blocks lie beside each other or are
  /// filled up; 0: one row behind the other. Not together with `axes`.
  Index stride = 0;
  Role role = Role::weight;
  Index fan_in = 0;   ///< inputs of one output unit, for initialisers
  Index fan_out = 0;  ///< outputs of one input unit
  Initialiser initialiser = Initialiser::zeros;
  bool frozen = false;  ///< training leaves it as it is; see ParameterLayout::freeze
  Index offset = 0;     ///< floats from the start of the vector; a multiple of 16; set by ParameterLayout::add

  Index size() const;         ///< numbers
  Index row_size() const;     ///< of one row along the first axis
  Index row_stride() const;   ///< floats from where one row along the first axis is stored to where the next one is
  Index stored_size() const;  ///< floats from its first number to behind its last one
};

/// Floats from one position to the next along each canonical axis, where they are stored.
std::vector<Index> stored_strides(const Block& block);

/// Where a block's rows begin inside the rows that it shares with others.
struct RowSlice {
  Block block;
  Index first = 0;  ///< floats from a row's start
};

/// Floats [first, last) of a vector.
struct FloatRange {
  Index first = 0, last = 0;
  bool operator==(const FloatRange&) const = default;
};

/// Names every block of θ. The order of numbers inside a block belongs to the backend, and is said by `axes`;
/// checkpoints, exports and printed values are in the canonical order. Between blocks lie up to 15 unused floats,
/// always zero, so that each starts at a cache line. Blocks whose rows lie beside each other share one segment of θ.
class ParameterLayout {
 public:
  /// Appends a block and returns its offset. \throws ConfigError for one that no memory holds
  Index add(Block block);

  /// Appends blocks of equally many rows that lie beside each other: row i of each begins at i · stride + its `first`.
  /// What of a row belongs to no block stays 0. \param stride a multiple of 16 \return the first row's offset
  /// \throws ConfigError for rows that no memory holds
  Index add_rows(std::vector<RowSlice> parts, Index stride);

  const std::vector<Block>& blocks() const { return blocks_; }
  /// \throws std::out_of_range where there is none.
  const Block& block(const std::string& name) const;

  /// Freezes the blocks that a glob pattern fits: by their own name ("dense1.weight") or that of a layer that they
  /// belong to ("dense1", "residual1", "conv*"). \return how many
  int freeze(const std::string& pattern);
  /// The segments that training may change, padding included; one of everything where no block is frozen. Blocks whose
  /// rows lie beside each other must not be frozen apart.
  std::vector<FloatRange> trainable() const;

  Index size() const { return size_; }              ///< N: floats of the whole vector, padding included
  Index parameters() const { return parameters_; }  ///< floats that are parameters

  /// Of names, shapes, axes and offsets. Ranks that share θ must agree on it.
  std::uint64_t hash() const;

 private:
  std::vector<Block> blocks_;
  Index size_ = 0;
  Index parameters_ = 0;
};

/// canonical[…] = stored[…], for a block or some of its rows, one after the other. \param canonical [block.size()], or
/// [rows · block.row_size()] \param stored the block's part of the vector, or what of it begins at the first of the
/// rows
void to_canonical(const Block& block, View stored, MutableView canonical);
/// stored[…] = canonical[…], likewise.
void from_canonical(const Block& block, View canonical, MutableView stored);

/// A block's part of the vector that the layout describes: stored_size() floats, other blocks' among them where rows
/// lie beside each other.
inline MutableView part(MutableView vector, const FloatRange& segment) {
  return vector.subspan(static_cast<std::size_t>(segment.first),
                        static_cast<std::size_t>(segment.last - segment.first));
}
inline View part(View vector, const FloatRange& segment) {
  return vector.subspan(static_cast<std::size_t>(segment.first),
                        static_cast<std::size_t>(segment.last - segment.first));
}
inline MutableView part(MutableView vector, const Block& block) {
  return vector.subspan(static_cast<std::size_t>(block.offset), static_cast<std::size_t>(block.stored_size()));
}
inline View part(View vector, const Block& block) {
  return vector.subspan(static_cast<std::size_t>(block.offset), static_cast<std::size_t>(block.stored_size()));
}

}  // namespace unisono
