#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"

// What a search varies: `[search.space]`.
//
//   "optimizer.learning_rate" = { log = [1e-4, 1.0] }           uniform in the logarithm
//   "model.dropout" = { linear = [0.0, 0.5] }                   uniform
//   "train.batch_size" = { integers = [16, 256], step = 16 }    whole numbers; log = true: uniform in the logarithm
//   "model.layers[3].units" = [128, 256, 512]                   one of these; the same as { choices = [128, 256, 512] }
//   "optimizer" = [{ kind = "sgd", momentum = { linear = [0, 0.99] } }, { kind = "adamw" }]
//       one of these tables; a distribution inside one is drawn where that table is chosen
//
// A key is the path of any key of the config, in quotes or as nested tables. Within a choice, a list is a value of the
// config, such as kernel = [3, 3]; choices there are { choices = [16, 32] }.
namespace unisono::search {

/// How one number or choice is drawn.
enum class Scale { linear, log, choice };

/// One dimension of a space. With F, the distribution function, x = F⁻¹(u) for u in [0, 1):
///     linear  F(x) = (x − low) / (high − low)        log  F(x) = ln(x / low) / ln(high / low)
/// Real numbers are rounded to six significant digits, so that a table shows them as they are. A whole number is drawn
/// as a real one below high + step and rounded down to low, low + step, …. Choices have equal shares of [0, 1).
struct Parameter {
  std::string key;  ///< "optimizer.learning_rate"; within a choice: "optimizer[0].momentum"
  Scale scale = Scale::linear;
  double low = 0, high = 1;  ///< range of numbers; for whole numbers, `high` is the largest value
  std::int64_t step = 0;     ///< above 0: whole numbers low, low + step, … ≤ high; 0: real numbers
  double asked_high = 0;     ///< whole numbers: the largest that was asked for, which steps may not reach
  ConfigValue::Array choices = {};
  int owner = -1, option = 0;  ///< drawn only where parameter `owner` takes its choice `option`; −1: always

  /// How many values the parameter has; 0: infinitely many.
  std::int64_t values() const;
  /// The number of the value at u; 0 for real numbers.
  std::int64_t index(double u) const;
  /// The middle of the u that give value i.
  double middle(std::int64_t i) const;
  /// The value at u. A whole table may hold distributions, see Space::at.
  ConfigValue at(double u) const;
  /// A u that gives a value: for a whole number or choice, the middle of these u; nothing where the parameter has no
  /// such value.
  std::optional<double> place_of(const ConfigValue& value) const;
};

/// A point of a space: a number in [0, 1) for each parameter, also for parameters that are not drawn.
using Point = std::vector<double>;

/// A value for one key of the config.
struct Assignment {
  std::string key;  ///< as in --set: "optimizer.learning_rate", "model.layers.3.units", "optimizer"
  ConfigValue value;
  /// The assignment as in --set: "optimizer.learning_rate=0.001".
  std::string override_text() const { return key + "=" + toml_text(value); }
};

/// What a search varies, as `[search.space]` says.
class Space {
 public:
  static constexpr std::int64_t kMostGridPoints = 1'000'000;

  Space() = default;
  /// Reads `[search.space]`. \throws ConfigError naming the place of what is no distribution, empty, repeated or out of
  /// range
  explicit Space(const ConfigValue& table);

  /// All parameters; a choice comes before the parameters that are drawn within it.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// Whether a parameter is drawn at a point: whether the choices that it depends on are taken.
  bool is_active(std::size_t parameter, const Point& point) const;
  /// The values at a point, in the order of the file; whole tables come first, so that keys within them can follow.
  std::vector<Assignment> at(const Point& point) const;
  /// All points of a space of finitely many values, each once (parameters that are not drawn are not varied), the last
  /// parameter fastest. \throws ConfigError naming a parameter that has infinitely many values, or for too many points
  std::vector<Point> grid() const;
  /// The point of values given by hand: a table of keys as in the space.
  /// \throws ConfigError for a key or value that the space does not have, or a key of the space that is not given
  Point point_of(const ConfigValue& values) const;

 private:
  const Parameter* find(const std::string& key, std::size_t* at = nullptr) const;
  /// A choice with its distributions replaced by their values at a point. \param key of it, as Parameter::key
  ConfigValue filled(const ConfigValue& option, const std::string& key, const Point& point) const;
  /// Whether a value can be this choice; then `point` gives it.
  bool matches(const ConfigValue& option, const ConfigValue& value, const std::string& key, Point& point) const;
  bool matches(const Parameter& parameter, const ConfigValue& value, double& u, Point& point) const;
  void refuse_other_keys(const ConfigValue& values, const std::string& path) const;

  std::vector<Parameter> parameters_;
  std::vector<std::size_t> order_;  ///< of the parameters that are always drawn, in assignments
};

/// Finds before the first trial what all trials with a value would be refused for: an unknown key, a value of another
/// type or out of range. A value that suits some values of other keys is not refused: there may be trials with it.
/// \param parse the config with these values; throws ConfigError where they are no config
/// \throws ConfigError naming the key and its value
void require_values(const Space& space, const std::function<void(const std::vector<Assignment>&)>& parse);

/// What a user of the space should know: numbers that its steps do not reach, and fewer points than trials.
/// \param trials how many are drawn at random; 0: none are
std::vector<std::string> notes_on(const Space& space, std::int64_t trials);

/// Refuses keys that a trial cannot have for itself. \param in_steps whether the method decides how long each trial is
/// trained \throws ConfigError naming the key, and what to do instead
void require_free_keys(const Space& space, bool in_steps);

}  // namespace unisono::search
