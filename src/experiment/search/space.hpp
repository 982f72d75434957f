#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/config_value.hpp"

// What a search varies: `[search.space]`.
//
//   "optimizer.learning_rate" = { log = [1e-4, 1.0] }                uniform in the logarithm
//   "model.dropout" = { linear = [0.0, 0.5] }                        uniform
//   "train.batch_size" = { integers = [16, 256], step = 16 }         a whole number; log = true: uniform in the logarithm
//   "model.layers[3].units" = [128, 256, 512]                        one of these
//   "optimizer" = [{ kind = "sgd", momentum = { linear = [0, 0.99] } }, { kind = "adamw" }]
//       one of these tables; a distribution inside one is drawn where that table is chosen
//
// A key is the path of any key of the config, in quotes or as nested tables.

namespace unisono::experiment {

/// How one number or choice is drawn.
enum class Scale { linear, log, choice };

/// One dimension of a space.
struct Parameter {
  std::string key;                ///< "optimizer.learning_rate"; within a choice: "optimizer[0].momentum"
  Scale scale = Scale::linear;
  double low = 0, high = 1;       ///< of numbers
  std::int64_t step = 0;          ///< above 0: whole numbers low, low + step, … ≤ high; 0: real numbers
  ConfigValue::Array choices = {};
  int owner = -1, option = 0;     ///< drawn only where parameter `owner` takes its choice `option`; −1: always

  /// How many values it has; 0: infinitely many.
  std::int64_t values() const;
  /// The value at u in [0, 1): the inverse of its distribution function. A constant density has as many u for each value.
  ConfigValue at(double u) const;
  /// The middle of the u that give this value; nothing where it is not one of this parameter's.
  std::optional<double> place_of(const ConfigValue& value) const;
};

/// A point of a space: a number in [0, 1) for each parameter, also for those that are not drawn.
using Point = std::vector<double>;

/// A value for one key of the config.
struct Assignment {
  std::string key;     ///< as in --set: "optimizer.learning_rate", "model.layers.3.units", "optimizer"
  ConfigValue value;
  /// "optimizer.learning_rate=0.001"
  std::string override_text() const { return key + "=" + toml_text(value); }
};

class Space {
 public:
  Space() = default;
  /// \throws ConfigError naming the place of what is no distribution, empty, repeated or out of range
  explicit Space(const ConfigValue& table);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Whether a parameter is drawn at this point: whether the choices that it depends on are taken.
  bool is_active(std::size_t parameter, const Point& point) const;
  /// The values at a point, in the order of the file; whole tables come first, so that keys within them can follow.
  std::vector<Assignment> at(const Point& point) const;
  /// All points of a space of finitely many values, each once (parameters that are not drawn are not varied), the last
  /// parameter fastest. \throws ConfigError naming a parameter that has infinitely many values
  std::vector<Point> grid() const;
  /// The point of values given by hand. \throws ConfigError for a key or value that the space does not have
  Point point_of(const ConfigValue& values) const;

 private:
  std::vector<Parameter> parameters_;
};

}  // namespace unisono::experiment
