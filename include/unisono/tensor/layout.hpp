#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// What a block holds. Weight decay leaves out biases and norms by default; LARS and LAMB adapt weights only. An
/// embedding is a table of tokens or positions: weights that a DecayRule may leave out. A statistic is a running mean
/// or variance. A state is optimizer state that models which are updated in place store in θ, next to their parameters.
enum class Role { weight, bias, norm, statistic, state, embedding };

/// Whether a block holds weights: matrices of layers, factors, tables.
constexpr bool is_weight(Role role) { return role == Role::weight || role == Role::embedding; }

/// Which blocks weight decay applies to.
enum class DecayRule {
  weights,             ///< all weights
  without_embeddings,  ///< weights but Role::embedding
  all                  ///< biases and norms, too
};

/// Whether weight decay applies to a block of this role.
constexpr bool decays(Role role, DecayRule rule) {
  if (rule == DecayRule::all) return true;
  return role == Role::weight || (role == Role::embedding && rule == DecayRule::weights);
}

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
  ones,
  constant  ///< Block::deviation
};

/// Positions first, first + step, … along an axis, `count` of them.
struct AxisRange {
  Index first = 0, count = 0, step = 1;
  Index last() const { return first + (count - 1) * step; }  ///< the largest position; needs count ≥ 1
  bool operator==(const AxisRange&) const = default;
};

/// What a layer that is divided among ranks (tensor parallelism) holds of a block: positions along one axis, range
/// after range, and all positions along the others.
struct Cut {
  std::size_t axis = 0;                ///< canonical
  std::vector<AxisRange> ranges = {};  ///< positions in the whole block; empty: the block is whole
};

/// One tensor inside the contiguous vector θ (or inside the vector of running statistics).
struct Block {
  std::string name;          ///< "convolution1.weight"
  std::vector<Index> shape;  ///< canonical, row-major: [O, I, KH, KW] for a convolution, [O, C, H, W] for a dense layer
  /// Stored axis i is canonical axis axes[i]; {2, 3, 0, 1} stores [KH, KW, O, I]; empty: canonical.
  std::vector<int> axes = {};
  /// Floats from the start of one row (along the first axis) to the next, where rows are padded or interleaved with
  /// rows of other blocks; 0: rows are contiguous. Not together with `axes`.
  Index stride = 0;
  Role role = Role::weight;
  Index fan_in = 0;   ///< inputs of one output unit, for initialisers
  Index fan_out = 0;  ///< outputs of one input unit
  Initialiser initialiser = Initialiser::zeros;
  double deviation = 0.01;  ///< of Initialiser::normal; the value of Initialiser::constant
  bool frozen = false;      ///< whether training leaves the block as it is; see ParameterLayout::freeze
  Cut cut = {};             ///< which part of the block of this name the block is, where a layer is divided
  Index offset = 0;         ///< floats from the start of the vector; a multiple of 16; set by ParameterLayout::add

  Index size() const;         ///< numbers of the block
  Index row_size() const;     ///< numbers in one row along the first axis
  Index row_stride() const;   ///< floats from the start of one stored row to the next
  Index stored_size() const;  ///< floats from the block's first number to the end of its last
};

/// The strides of a block as it is stored, in floats, by canonical axis.
std::vector<Index> stored_strides(const Block& block);

/// A block whose rows are interleaved with those of other blocks, and where its part of an interleaved row begins.
struct InterleavedBlock {
  Block block;
  Index first = 0;  ///< floats from a row's start
};

/// Floats [first, last) of a vector.
struct FloatRange {
  Index first = 0, last = 0;
  bool operator==(const FloatRange&) const = default;
};

/// Names every block of θ. The backend decides in which order the numbers of a block are stored (`axes`); checkpoints,
/// exports and printed values are in the canonical order. Between blocks lie up to 15 unused floats, always zero, so
/// that each block starts at a cache line. Blocks with interleaved rows share one segment of θ.
class ParameterLayout {
 public:
  /// Appends a block and returns its offset. \throws ConfigError for a block too large for any memory
  Index add(Block block);

  /// Appends blocks with equally many rows, interleaved: row i of each begins at i · stride + its `first`. Floats of a
  /// row that belong to no block stay 0. \param stride a multiple of 16 \return the first row's offset
  /// \throws ConfigError for rows too large for any memory
  Index add_rows(std::vector<InterleavedBlock> parts, Index stride);

  const std::vector<Block>& blocks() const { return blocks_; }
  /// The block of a name. \throws std::out_of_range where there is none.
  const Block& block(const std::string& name) const;

  /// The numbers of the blocks that match a glob pattern: by their own name ("dense1.weight") or by the name of a layer
  /// that they belong to ("dense1", "residual1", "conv*").
  std::vector<std::size_t> matching(const std::string& pattern) const;
  /// Freezes the blocks that match a pattern. \return how many blocks match
  int freeze(const std::string& pattern);
  /// The segments that training may change, padding included; a single one where no block is frozen. Of blocks with
  /// interleaved rows, either all must be frozen or none.
  std::vector<FloatRange> trainable() const;

  Index size() const { return size_; }              ///< N: floats of the whole vector, padding included
  Index parameters() const { return parameters_; }  ///< floats that are parameters

  /// Hash of names, shapes, axes, offsets and strides. It must be equal on all ranks that train a θ together.
  std::uint64_t hash() const;

 private:
  std::vector<Block> blocks_;
  Index size_ = 0;
  Index parameters_ = 0;
};

/// canonical[…] = stored[…], for a block or for consecutive rows of it.
/// \param canonical [block.size()], or [rows · block.row_size()]
/// \param stored the block's part of the vector, or its rest from the first of the rows on
void to_canonical(const Block& block, View stored, MutableView canonical);
/// stored[…] = canonical[…], for a block or for consecutive rows of it. \param canonical, stored as for to_canonical
void from_canonical(const Block& block, View canonical, MutableView stored);

/// The part of a vector that a segment takes.
inline MutableView part(MutableView vector, const FloatRange& segment) {
  return vector.subspan(static_cast<std::size_t>(segment.first),
                        static_cast<std::size_t>(segment.last - segment.first));
}
/// The part of a vector that a segment takes.
inline View part(View vector, const FloatRange& segment) {
  return vector.subspan(static_cast<std::size_t>(segment.first),
                        static_cast<std::size_t>(segment.last - segment.first));
}
/// The part of a vector that a block takes: stored_size() floats, with floats of other blocks in between where rows are
/// interleaved.
inline MutableView part(MutableView vector, const Block& block) {
  return vector.subspan(static_cast<std::size_t>(block.offset), static_cast<std::size_t>(block.stored_size()));
}
/// The part of a vector that a block takes: stored_size() floats, with floats of other blocks in between where rows are
/// interleaved.
inline View part(View vector, const Block& block) {
  return vector.subspan(static_cast<std::size_t>(block.offset), static_cast<std::size_t>(block.stored_size()));
}

/// n · part / whole, without the overflow of the product.
inline Index share_of(Index n, Index part, Index whole) { return n / whole * part + n % whole * part / whole; }

/// What lies between ascending ranges of a vector of `size` floats, before the first and after the last.
std::vector<FloatRange> gaps_between(const std::vector<FloatRange>& ranges, Index size);

}  // namespace unisono
