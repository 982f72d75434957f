#pragma once

#include <cstdint>

#include "unisono/tensor/allocator.hpp"

namespace unisono::records {

/// How the outputs of a model are read as classes that exclude each other.
struct ClassReading {
  Index classes = 0;           ///< K, at least 2
  Index outputs = 0;           ///< K; or 1, for the second of two classes
  bool probabilities = false;  ///< otherwise margins

  /// The class with the largest output, the first of equals. With one output: the second class if it is above ½ (for
  /// margins: above 0).
  std::int32_t class_of(View row) const;
  /// The probability of that class. \pre probabilities
  double confidence(View row) const;
};

}  // namespace unisono::records
