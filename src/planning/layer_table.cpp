#include "layer_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "unisono/base/errors.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/memory.hpp"

namespace unisono::planning {
namespace {

using Layers = std::vector<models::LayerSummary>;

/// A layer's name where it is in a repetition: "repeat1.", 3, ".dense1". Only repetitions have numbers for names.
struct RepeatedName {
  std::string before, after;
  int number = 0;  ///< 0: it is in none
};

RepeatedName repeated_name(const std::string& name) {
  for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1)) {
    std::size_t end = dot + 1;
    while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
    if (end == dot + 1 || end == name.size() || name[end] != '.') continue;
    return {name.substr(0, dot + 1), name.substr(end), std::stoi(name.substr(dot + 1, end - dot - 1))};
  }
  return {};
}

/// Consecutive layers of one repetition, or a layer that is in none: [first, last).
struct Group {
  std::size_t first, last;
  RepeatedName name = {};  ///< of the first layer
};

std::vector<Group> groups_of(const Layers& layers) {
  std::vector<Group> groups;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const RepeatedName name = repeated_name(layers[i].name);
    const bool same = name.number > 0 && !groups.empty() && groups.back().name.number == name.number &&
                      groups.back().name.before == name.before;
    if (!same) groups.push_back({i, i, name});
    ++groups.back().last;
  }
  return groups;
}

bool are_alike(const models::LayerSummary& a, const models::LayerSummary& b) {
  return repeated_name(a.name).after == repeated_name(b.name).after && a.kind == b.kind && a.output == b.output &&
         a.parameters == b.parameters && a.flops_per_example == b.flops_per_example &&
         a.activation_bytes == b.activation_bytes;
}

/// Whether two groups are repetitions of the same layers that are alike.
bool are_alike(const Layers& layers, const Group& a, const Group& b) {
  const auto at = [&](std::size_t i) { return layers.begin() + static_cast<std::ptrdiff_t>(i); };
  return a.name.number > 0 && b.name.before == a.name.before &&
         std::equal(at(a.first), at(a.last), at(b.first), at(b.last),
                    [](const auto& one, const auto& other) { return are_alike(one, other); });
}

/// The layers that the table has.
Layers shown(const Layers& layers) {
  Layers shown;
  const std::vector<Group> groups = groups_of(layers);
  for (std::size_t i = 0; i < groups.size();) {
    const Group& first = groups[i];
    int last_number = first.name.number;
    for (++i; i < groups.size() && are_alike(layers, first, groups[i]); ++i) last_number = groups[i].name.number;
    for (std::size_t k = first.first; k < first.last; ++k) {
      shown.push_back(layers[k]);
      if (last_number == first.name.number) continue;
      const RepeatedName name = repeated_name(layers[k].name);
      shown.back().name = fmt::format("{}{}…{}{}", name.before, name.number, last_number, name.after);
    }
  }
  return shown;
}

}  // namespace

std::string layer_table(const std::vector<models::LayerSummary>& layers) {
  const Layers rows = shown(layers);
  std::size_t name = 5, kind = 4, output = 6;
  for (const models::LayerSummary& layer : rows) {
    name = std::max(name, layer.name.size());
    kind = std::max(kind, layer.kind.size());
    output = std::max(output, layer.output.size());
  }
  std::string text = fmt::format("{:{}}  {:{}}  {:{}}  {:>12}  {:>14}  {:>12}\n", "layer", name, "kind", kind, "output",
                                 output, "parameters", "flops/example", "activations");
  for (const models::LayerSummary& layer : rows) {
    text +=
        fmt::format("{:{}}  {:{}}  {:{}}  {:>12}  {:>14}  {:>12}\n", layer.name, name, layer.kind, kind, layer.output,
                    output, grouped(layer.parameters), grouped(static_cast<std::int64_t>(layer.flops_per_example)),
                    session::bytes_text(static_cast<double>(layer.activation_bytes)));
  }
  return text;
}

}  // namespace unisono::planning
