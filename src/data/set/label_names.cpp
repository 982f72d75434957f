#include "unisono/data/label_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "unisono/base/printable.hpp"

namespace unisono::data {

std::string problem_of_labels(const std::vector<std::string>& names) {
  std::set<std::string> known;
  for (const std::string& name : names) {
    if (name.empty()) return "a label has no name";
    if (!is_utf8(name)) return fmt::format("the label '{}' is not UTF-8", on_one_line(name));
    if (name.find_first_of("\r\n") != std::string::npos) {
      return fmt::format("the label '{}' has the end of a line in its name", on_one_line(name));
    }
    if (name.find(kLabelSeparator) != std::string::npos) {
      return fmt::format("the label '{}' has a '{}' in its name, which stands between the labels in tables", name,
                         kLabelSeparator);
    }
    if (!known.insert(name).second) return fmt::format("two labels are named '{}'", name);
  }
  return "";
}

std::string join_labels(View values, const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t k = 0; k < std::min(values.size(), names.size()); ++k) {
    if (!(values[k] > 0.5F)) continue;
    if (!text.empty()) text += kLabelSeparator;
    text += names[k];
  }
  return text;
}

}  // namespace unisono::data
