#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/reference.hpp"

namespace unisono {
namespace {

using detail::ReferenceKey;
using detail::ReferenceTable;

/// "integer, at least 1, steps"
std::string type_range_unit(const ReferenceKey& key) {
  return key.type + (key.range.empty() ? "" : ", " + key.range) + (key.unit.empty() ? "" : " (" + key.unit + ")");
}

std::string as_text(const ReferenceTable& table) {
  std::string text;
  if (!table.title.empty()) text += fmt::format("\n{}  {}\n", table.title, table.meaning);
  for (const ReferenceKey& key : table.keys) {
    text += fmt::format("  {}{}\n      {}: {}\n", key.name, key.value.empty() ? ", required" : " = " + key.value,
                        type_range_unit(key), key.meaning);
    if (!key.kinds.empty()) text += fmt::format("      only for {}\n", fmt::join(key.kinds, ", "));
    for (const auto& [name, meaning] : key.choices) text += fmt::format("        {:20}  {}\n", name, meaning);
  }
  for (const ReferenceTable& inner : table.tables) text += as_text(inner);
  return text;
}

/// Text for a cell of a Markdown table.
std::string cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

std::string markdown_row(const ReferenceKey& key) {
  std::string meaning = cell(key.meaning);
  if (!key.kinds.empty()) meaning += fmt::format(" (only for `{}`)", fmt::join(key.kinds, "`, `"));
  for (const auto& [name, about] : key.choices) meaning += fmt::format("<br>`{}`: {}", name, cell(about));
  return fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", key.name, meaning, key.type, key.unit,
                     key.value.empty() ? "required" : "`" + cell(key.value) + "`", key.range);
}

std::string as_markdown(const ReferenceTable& table) {
  std::string text;
  if (!table.title.empty()) {
    text += fmt::format("\n## `{}`\n\n{}", table.title, table.meaning);
    if (!table.kinds.empty()) text += fmt::format(" (only for `{}`)", fmt::join(table.kinds, "`, `"));
    text += ".\n";
  }
  if (!table.keys.empty()) text += "\n| key | meaning | type | unit | default | range |\n|---|---|---|---|---|---|\n";
  for (const ReferenceKey& key : table.keys) text += markdown_row(key);
  for (const ReferenceTable& inner : table.tables) text += as_markdown(inner);
  return text;
}

}  // namespace

std::string config_reference(const Describe& describe, ReferenceFormat format) {
  const ReferenceTable table = detail::collect_reference(describe);
  return format == ReferenceFormat::text ? as_text(table) : as_markdown(table);
}

}  // namespace unisono
