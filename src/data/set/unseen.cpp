#include "unisono/data/unseen.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "set/seen.hpp"
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

Unseen unseen_classes(const std::vector<bool>& seen, const std::vector<std::int64_t>& counts) {
  Unseen unseen;
  for (std::size_t label = 0; label < counts.size(); ++label) {
    unseen.examples += counts[label];
    const bool is_seen = label < seen.size() && seen[label];
    if (counts[label] > 0 && !is_seen) unseen.classes.push_back({static_cast<std::int32_t>(label), counts[label]});
  }
  return unseen;
}

std::vector<bool> classes_seen(Index classes, const VisitClasses& training) {
  std::vector<bool> seen(static_cast<std::size_t>(classes));
  Index left = classes;
  training([&](std::int32_t label) {
    auto known = seen[static_cast<std::size_t>(label)];
    if (!known) --left;
    known = true;
    return left > 0;
  });
  return seen;
}

std::vector<bool> classes_trained(Index classes, const std::vector<std::int32_t>& untrained) {
  std::vector<bool> seen(static_cast<std::size_t>(classes), true);
  for (const std::int32_t label : untrained) {
    if (label < classes) seen[static_cast<std::size_t>(label)] = false;
  }
  return seen;
}

Unseen examples_unseen(const std::vector<bool>& seen, std::int64_t examples, const VisitClasses& split) {
  if (std::ranges::find(seen, false) == seen.end()) return {.examples = examples};
  std::vector<std::int64_t> counts(seen.size());
  split([&](std::int32_t label) {
    ++counts[static_cast<std::size_t>(label)];
    return true;
  });
  return unseen_classes(seen, counts);
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
