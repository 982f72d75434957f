#include "weights/tensor_rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::session {
namespace {

using settings::TensorRule;

std::vector<std::string_view> between_stars(std::string_view pattern) {
  std::vector<std::string_view> pieces;
  for (std::size_t star = pattern.find('*'); star != std::string_view::npos; star = pattern.find('*')) {
    pieces.push_back(pattern.substr(0, star));
    pattern.remove_prefix(star + 1);
  }
  pieces.push_back(pattern);
  return pieces;
}

/// What each * of a pattern stands for in a name, from the left as little as possible; nothing where it does not fit.
std::optional<std::vector<std::string>> stars_of(std::string_view pattern, std::string_view name) {
  const std::vector<std::string_view> pieces = between_stars(pattern);
  std::vector<std::string> stars;
  if (pieces.size() == 1) return pattern == name ? std::optional(stars) : std::nullopt;
  const std::string_view first = pieces.front(), last = pieces.back();
  if (name.size() < first.size() + last.size() || !name.starts_with(first) || !name.ends_with(last)) return {};
  name.remove_prefix(first.size());
  name.remove_suffix(last.size());
  for (std::size_t i = 1; i + 1 < pieces.size(); ++i) {
    const std::size_t at = name.find(pieces[i]);
    if (at == std::string_view::npos) return {};
    stars.emplace_back(name.substr(0, at));
    name.remove_prefix(at + pieces[i].size());
  }
  stars.emplace_back(name);
  return stars;
}

std::string filled(std::string_view pattern, const std::vector<std::string>& stars) {
  const std::vector<std::string_view> pieces = between_stars(pattern);
  std::string text(pieces.front());
  for (std::size_t i = 1; i < pieces.size(); ++i) text += stars[i - 1] + std::string(pieces[i]);
  return text;
}

void require_used(const TensorRule& rule, const data::StoredTensors& tensors, const std::string& path) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (stars_of(rule.from, name)) return;
    names.push_back(name);
  }
  const std::string nearest = nearest_name(rule.from, names);
  throw ConfigError(fmt::format("train.initialise_map: no tensor of {} fits '{}'{}; the file has {}", path, rule.from,
                                nearest.empty() ? "" : fmt::format(" (is it '{}'?)", nearest),
                                names.empty() ? "none" : some_of(names)));
}

}  // namespace

std::string some_of(const std::vector<std::string>& names, std::size_t most) {
  const std::size_t shown = std::min(most, names.size()), more = names.size() - shown;
  const std::vector<std::string> first(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown));
  return fmt::format("{}{}", fmt::join(first, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

RenamedTensors rename_tensors(data::StoredTensors tensors, const std::vector<TensorRule>& rules,
                              const std::string& path) {
  for (const TensorRule& rule : rules) require_used(rule, tensors, path);
  RenamedTensors renamed;
  for (auto& [name, tensor] : tensors) {
    std::string here = name;
    for (const TensorRule& rule : rules) {
      const auto stars = stars_of(rule.from, name);
      if (!stars) continue;
      here = filled(rule.to, *stars);
      break;
    }
    if (here.empty()) {
      renamed.left_out.push_back(name);
      continue;
    }
    const auto [place, is_new] = renamed.tensors.emplace(here, tensor);
    if (is_new) continue;
    throw ConfigError(fmt::format(
        "train.initialise_map: {}: '{}' and '{}' are both called '{}' here; leave one of them out with '{} ='", path,
        place->second.name, tensor.name, here, tensor.name));
  }
  return renamed;
}

}  // namespace unisono::session
