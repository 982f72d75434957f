#include "unisono/data/unseen.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kMostNamed = 5;

std::string without_signs(std::string_view name) {
  std::string bare;
  for (const char c : name) {
    if (c == '.' || c == ' ' || c == '\t') continue;
    bare += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return bare;
}

}  // namespace

std::int64_t Unseen::in_classes() const {
  std::int64_t sum = 0;
  for (const ClassCount& one : classes) sum += one.examples;
  return sum;
}

std::string twin_of(std::string_view name, const std::vector<std::string>& others) {
  const std::string bare = without_signs(name);
  const auto found = std::ranges::find_if(
      others, [&](const std::string& other) { return other != name && without_signs(other) == bare; });
  return found == others.end() ? "" : *found;
}

std::string unseen_classes_text(const Unseen& unseen, const std::vector<std::string>& names,
                                const std::vector<bool>& seen, std::string_view split, std::string_view unit) {
  if (unseen.classes.empty()) return "";
  std::vector<std::string> trained;
  for (std::size_t label = 0; label < names.size(); ++label) {
    if (label < seen.size() && seen[label]) trained.push_back(names[label]);
  }
  std::string list;
  for (std::size_t i = 0; i < std::min(kMostNamed, unseen.classes.size()); ++i) {
    const auto label = static_cast<std::size_t>(unseen.classes[i].label);
    const std::string name = label < names.size() ? "'" + names[label] + "'" : std::to_string(label);
    const std::string twin = label < names.size() ? twin_of(names[label], trained) : "";
    list += fmt::format("{}{} ({}{})", i == 0 ? "" : ", ", name, grouped(unseen.classes[i].examples),
                        twin.empty() ? "" : fmt::format("; is it '{}'?", twin));
  }
  if (unseen.classes.size() > kMostNamed) list += fmt::format(" and {} more", unseen.classes.size() - kMostNamed);
  const std::int64_t examples = unseen.in_classes();
  return fmt::format("{} of {} {} {}s {} of {} that no training {} has: {}", grouped(examples),
                     grouped(unseen.examples), split, unit, examples == 1 ? "is" : "are",
                     unseen.classes.size() == 1 ? "a class" : "classes", unit, list);
}

}  // namespace unisono::data
