#include "set/common_answer.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace unisono::data {

bool CommonAnswer::add(std::span<const float> answer) {
  if (first_.empty()) first_.assign(answer.begin(), answer.end());
  return std::ranges::equal(first_, answer);
}

std::string CommonAnswer::text(bool are_labels, const std::vector<std::string>& class_names) const {
  if (first_.empty()) return "";
  if (first_.size() > 1) return fmt::format("the same {} targets", first_.size());
  if (!are_labels) return fmt::format("the target {}", first_.front());
  const auto label = static_cast<std::size_t>(first_.front());
  return label < class_names.size() ? fmt::format("the class '{}'", class_names[label])
                                    : fmt::format("the class {}", label);
}

}  // namespace unisono::data
