#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"

namespace unisono::data {

/// Finds out whether all examples of a split have the same label, or the same targets.
class AnswerComparison {
 public:
  /// \param answer an example's label as a number, or its targets \return false: it differs from the first one
  bool add(std::span<const float> answer);

  /// What all of them have, if there were any and none differed.
  std::optional<CommonAnswer> common(bool are_labels, const std::vector<std::string>& class_names) const;

 private:
  std::vector<float> first_;  ///< empty: there was none
};

}  // namespace unisono::data
