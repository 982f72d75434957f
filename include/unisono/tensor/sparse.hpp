#pragma once

#include <cstdint>
#include <span>

#include "unisono/tensor/allocator.hpp"

// Views of sparse data sets and of text. They do not own the memory.

namespace unisono {

/// Rows of a sparse matrix (CSR): row i holds values[k] at column columns[k], for offsets[i] ≤ k < offsets[i + 1].
struct SparseRows {
  std::span<const std::uint64_t> offsets;  ///< [rows + 1]
  std::span<const std::uint32_t> columns;  ///< ascending within a row, no column twice
  std::span<const float> values;           ///< one for each of `columns`; empty: all are 1
  Index width = 0;                         ///< columns of the matrix

  Index rows() const { return offsets.empty() ? 0 : static_cast<Index>(offsets.size()) - 1; }
};

/// One entry of a sparse matrix: a user's rating of an item, or how often two words occur near each other.
struct SparseEntry {
  std::uint32_t row = 0, column = 0;
  float value = 0;
};

/// Sentences of words; a word is an index in a vocabulary: sentence i is words[sentences[i] … sentences[i + 1]).
struct Text {
  std::span<const std::int32_t> words;
  std::span<const std::uint64_t> sentences;  ///< [number of sentences + 1]
};

}  // namespace unisono
