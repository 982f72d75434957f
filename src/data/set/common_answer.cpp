#include "set/common_answer.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace unisono::data {

bool AnswerComparison::add(std::span<const float> answer) {
  if (first_.empty()) first_.assign(answer.begin(), answer.end());
  return std::ranges::equal(first_, answer);
}

std::optional<CommonAnswer> AnswerComparison::common(bool are_labels,
                                                     const std::vector<std::string>& class_names) const {
  if (first_.empty()) return std::nullopt;
  if (first_.size() > 1) return CommonAnswer{fmt::format("the same {} targets", first_.size())};
  if (!are_labels) return CommonAnswer{fmt::format("the target {}", first_.front())};
  const auto label = static_cast<std::size_t>(first_.front());
  return CommonAnswer{label < class_names.size() ? fmt::format("the class '{}'", class_names[label])
                                                 : fmt::format("the class {}", label),
                      static_cast<std::int32_t>(label)};
}

}  // namespace unisono::data
