#include "chosen_keys.hpp"

#include <optional>

#include "unisono/base/errors.hpp"
#include "unisono/records/config_entries.hpp"

namespace unisono::report {
namespace {

/// The effective config of a text without some of its keys; nothing where it cannot be read without them.
std::optional<std::string> without(const std::string& text, const std::vector<std::string>& keys,
                                   const models::ModelKinds& models) {
  try {
    const ConfigText config{.path = "config.toml", .text = text, .overrides = {}, .removals = keys};
    return effective_config(settings::parse_config(config, models));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> chosen_keys(const std::string& effective,
                                                             const models::ModelKinds& models) {
  const std::optional<std::string> whole = without(effective, {}, models);
  std::vector<std::pair<std::string, std::string>> chosen;
  for (const auto& [key, value] : records::config_entries(effective)) {
    if (!whole || without(effective, {key}, models) != whole) chosen.emplace_back(key, value);
  }
  return chosen;
}

}  // namespace unisono::report
