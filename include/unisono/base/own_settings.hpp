#pragma once

#include <any>
#include <map>
#include <typeindex>
#include <utility>

namespace unisono {

/// The settings of single kinds (a strategy, an optimizer, a layer), stored by the type of their struct: only the
/// source file of a kind knows the struct. A struct that nobody has changed has its default values.
class OwnSettings {
 public:
  OwnSettings() = default;
  /// With the settings of one kind, e.g. OwnSettings::with(SgdSettings{.momentum = 0.9}).
  template <typename Settings>
  static OwnSettings with(Settings settings) {
    OwnSettings own;
    own.of<Settings>() = std::move(settings);
    return own;
  }

  template <typename Settings>
  /// The struct of this type.
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
