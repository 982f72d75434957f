#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "unisono/search/space.hpp"

namespace unisono::search {
namespace {

constexpr double kBelowOne = 1 - 0x1p-53;

/// Where the distribution function reaches 1.
double end_of(const Parameter& p) { return p.high + static_cast<double>(p.step); }

/// F(x)
double share_below(const Parameter& p, double x) {
  if (p.scale == Scale::log) return std::log(x / p.low) / std::log(end_of(p) / p.low);
  return (x - p.low) / (end_of(p) - p.low);
}

/// F⁻¹(u)
double quantile(const Parameter& p, double u) {
  if (p.scale == Scale::log) return p.low * std::exp(u * std::log(end_of(p) / p.low));
  return p.low + u * (end_of(p) - p.low);
}

/// To six significant digits.
double rounded(double x) {
  const std::string text = fmt::format("{:.6g}", x);
  std::from_chars(text.data(), text.data() + text.size(), x);
  return x;
}

std::int64_t value_of_index(const Parameter& p, std::int64_t i) {
  return static_cast<std::int64_t>(p.low) + i * p.step;
}

}  // namespace

std::int64_t Parameter::values() const {
  if (scale == Scale::choice) return static_cast<std::int64_t>(choices.size());
  return step == 0 ? 0 : static_cast<std::int64_t>(high - low) / step + 1;
}

std::int64_t Parameter::index(double u) const {
  if (values() == 0) return 0;
  const double i = scale == Scale::choice ? u * static_cast<double>(choices.size())
                                          : (quantile(*this, u) - low) / static_cast<double>(step);
  return std::clamp(static_cast<std::int64_t>(i), std::int64_t{0}, values() - 1);
}

double Parameter::middle(std::int64_t i) const {
  if (scale == Scale::choice) return (static_cast<double>(i) + 0.5) / static_cast<double>(choices.size());
  const auto value = static_cast<double>(value_of_index(*this, i));
  return (share_below(*this, value) + share_below(*this, value + static_cast<double>(step))) / 2;
}

ConfigValue Parameter::at(double u) const {
  if (scale == Scale::choice) return choices[static_cast<std::size_t>(index(u))];
  if (step > 0) return {.value = value_of_index(*this, index(u))};
  return {.value = std::clamp(rounded(quantile(*this, u)), low, high)};
}

std::optional<double> Parameter::place_of(const ConfigValue& value) const {
  if (scale == Scale::choice) {
    const auto found = std::ranges::find_if(choices, [&](const ConfigValue& choice) {
      return choice == value || (choice.number() && choice.number() == value.number());
    });
    if (found == choices.end()) return std::nullopt;
    return middle(found - choices.begin());
  }
  const std::optional<double> number = value.number();
  if (!number || !(*number >= low && *number <= high)) return std::nullopt;
  if (step == 0) return std::clamp(share_below(*this, *number), 0.0, kBelowOne);
  const auto i = static_cast<std::int64_t>((*number - low) / static_cast<double>(step));
  if (static_cast<double>(value_of_index(*this, i)) != *number) return std::nullopt;
  return middle(i);
}

}  // namespace unisono::search
