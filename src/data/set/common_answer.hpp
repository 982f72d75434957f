#pragma once

#include <span>
#include <string>
#include <vector>

namespace unisono::data {

/// Finds out whether all examples of a split have the same label, or the same targets.
class CommonAnswer {
 public:
  /// \param answer an example's label as a number, or its targets \return false: it differs from the first one
  bool add(std::span<const float> answer);

  /// "the class 'cat'", "the target 3.5", "the same 3 targets"; empty: there were no examples
  std::string text(bool are_labels, const std::vector<std::string>& class_names) const;

 private:
  std::vector<float> first_;  ///< empty: there was none
};

}  // namespace unisono::data
