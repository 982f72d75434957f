#pragma once

#include <fmt/format.h>

#include <string>

#include "unisono/optim/optimizer.hpp"

// Settings of update rules of which only their own files know what is in them.

namespace unisono::optim {

/// With keys as users write them: with({.kind = "sgd", .learning_rate = 0.5}, "momentum = 0.9, nesterov = true").
inline OptimizerSettings with(OptimizerSettings settings, const std::string& keys) {
  const std::string text = fmt::format("optimizer = {{ kind = '{}', learning_rate = {}{}{} }}", settings.kind,
                                       settings.learning_rate, keys.empty() ? "" : ", ", keys);
  parse_config({.path = "optimizer.toml", .text = text, .overrides = {}}, [&](ConfigVisitor& visitor) {
    visitor.section({.name = "optimizer", .meaning = "the update rule"}, settings);
  });
  return settings;
}

/// A key's number, as the effective config has it; 0 where the kind has no such key.
inline double number_of(OptimizerSettings settings, const std::string& key) {
  const std::string text = "\n" + effective_config([&](ConfigVisitor& visitor) { settings.describe(visitor); });
  const auto found = text.find("\n" + key + " = ");
  return found == std::string::npos ? 0 : std::stod(text.substr(found + key.size() + 4));
}

}  // namespace unisono::optim
