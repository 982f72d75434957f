#pragma once

#include <string>
#include <utility>
#include <vector>

#include "unisono/nn/network.hpp"

// Settings of single layers.

namespace unisono::nn {

/// As users write them: layer("convolution", "channels = 4, kernel = [3, 5]").
inline LayerSettings layer(const std::string& kind, const std::string& keys = "") {
  LayerSettings settings;
  const std::string text = "layer = { kind = '" + kind + "'" + (keys.empty() ? "" : ", " + keys) + " }";
  parse_config({.path = "layer.toml", .text = text, .overrides = {}},
               [&](ConfigVisitor& visitor) { visitor.section({.name = "layer", .meaning = "a layer"}, settings); });
  return settings;
}

/// ", key = [1, 2]", or nothing where there are no numbers.
inline std::string numbers(const std::string& key, const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return text.empty() ? text : ", " + key + " = [" + text + "]";
}

inline std::string more(const std::string& keys) { return keys.empty() ? keys : ", " + keys; }

// \param keys that follow, likewise
inline LayerSettings dense(std::int64_t units, const std::string& keys = "") {
  return layer("dense", "units = " + std::to_string(units) + more(keys));
}
inline LayerSettings convolution(std::int64_t channels, const std::vector<std::int64_t>& kernel,
                                 const std::vector<std::int64_t>& padding = {}, const std::string& keys = "") {
  return layer("convolution", "channels = " + std::to_string(channels) + numbers("kernel", kernel) +
                                  numbers("padding", padding) + more(keys));
}
inline LayerSettings pool(const std::string& kind, const std::vector<std::int64_t>& size,
                          const std::vector<std::int64_t>& stride = {}, const std::string& keys = "") {
  return layer(kind, numbers("size", size).substr(2) + numbers("stride", stride) + more(keys));
}
inline LayerSettings dropout(double rate) { return layer("dropout", "rate = " + std::to_string(rate)); }

inline LayerSettings residual(std::vector<LayerSettings> branch, std::vector<LayerSettings> shortcut = {}) {
  LayerSettings settings;
  settings.kind = "residual";
  settings.own = OwnSettings::with(ResidualSettings{std::move(branch), std::move(shortcut)});
  return settings;
}

}  // namespace unisono::nn
