#pragma once

#include <any>
#include <map>
#include <typeindex>
#include <utility>

namespace unisono {

/// Settings structs of the kinds of a table (strategies, optimizers, layers), found by their type: only the file that
/// has a struct knows what is in it. One that nobody has changed has its defaults.
class OwnSettings {
 public:
  OwnSettings() = default;
  /// That of one kind, say OwnSettings::with(SgdSettings{.momentum = 0.9}).
  template <typename Settings>
  static OwnSettings with(Settings settings) {
    OwnSettings own;
    own.of<Settings>() = std::move(settings);
    return own;
  }

  template <typename Settings>
  Settings& of() {
    return std::any_cast<Settings&>(by_type_.try_emplace(typeid(Settings), Settings{}).first->second);
  }
  template <typename Settings>
  Settings of() const {
    const auto found = by_type_.find(typeid(Settings));
    return found == by_type_.end() ? Settings{} : std::any_cast<const Settings&>(found->second);
  }

 private:
  std::map<std::type_index, std::any> by_type_;
};

}  // namespace unisono
