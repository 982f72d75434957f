#include "plot/scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "unisono/base/text.hpp"

namespace unisono::report::plot {
namespace {

constexpr int kMostTicks = 7;
constexpr double kSlack = 1e-9;  // of a step: a tick that rounding puts just outside of the axis belongs to it

/// The smallest of 1, 2, 5 times a power of ten that divides a length into at most so many steps.
double step_of(double length, int steps) {
  const double power = std::pow(10, std::floor(std::log10(length / steps)));
  for (const double factor : {1, 2, 5}) {
    if (length / (factor * power) <= steps * (1 + kSlack)) return factor * power;
  }
  return 10 * power;
}

/// A range with a length, around one without.
Range widened(Range range, Spacing spacing) {
  if (range.maximum > range.minimum) return range;
  if (spacing == Spacing::logarithmic) return {range.minimum / 2, range.maximum * 2};
  const double half = range.minimum == 0 ? 1 : std::abs(range.minimum) / 10;
  return {range.minimum - half, range.maximum + half};
}

}  // namespace

std::string number_text(double value) {
  if (value == 0) return "0";  // neither "-0"
  if (std::isnan(value)) return "–";
  if (std::abs(value) < 1e7 && std::abs(value) >= 1000 && value == std::round(value)) {
    return grouped(static_cast<std::int64_t>(value));
  }
  return fmt::format("{:.4g}", value);
}

void Span::add(double value) {
  if (!std::isfinite(value) || (spacing_ == Spacing::logarithmic && value <= 0)) return;
  if (!range_) range_ = Range{value, value};
  range_->minimum = std::min(range_->minimum, value);
  range_->maximum = std::max(range_->maximum, value);
}

void Span::add(std::span<const double> values) {
  for (const double value : values) add(value);
}

Scale::Scale(const Axis& axis, const Span& values, Ends ends, double from, double to)
    : spacing_(axis.choices.empty() ? axis.spacing : Spacing::linear), from_(from), to_(to) {
  const Range empty = is_logarithmic() ? Range{1, 10} : Range{0, 1};
  if (!axis.choices.empty()) {
    minimum_ = -0.5;
    maximum_ = static_cast<double>(axis.choices.size()) - 0.5;
    for (std::size_t i = 0; i < axis.choices.size(); ++i) ticks_.push_back({static_cast<double>(i), axis.choices[i]});
    return;
  }
  Range range = values.range().value_or(empty);
  if (axis.minimum) range.minimum = *axis.minimum;
  if (axis.maximum) range.maximum = *axis.maximum;
  range = widened(range, spacing_);
  minimum_ = range.minimum;
  maximum_ = range.maximum;
  is_logarithmic() ? divide_by_powers(ends) : divide_evenly(ends);
  if (axis.minimum) minimum_ = *axis.minimum;
  if (axis.maximum) maximum_ = *axis.maximum;
  std::erase_if(ticks_, [&](const Tick& tick) {
    const double slack = kSlack * (maximum_ - minimum_);
    return tick.value < minimum_ - slack || tick.value > maximum_ + slack;
  });
}

void Scale::divide_evenly(Ends ends) {
  const double step = step_of(maximum_ - minimum_, kMostTicks);
  double first = std::ceil(minimum_ / step - kSlack), last = std::floor(maximum_ / step + kSlack);
  if (ends == Ends::ticks) {
    first = std::floor(minimum_ / step + kSlack);
    last = std::ceil(maximum_ / step - kSlack);
    minimum_ = first * step;
    maximum_ = last * step;
  }
  for (double i = first; i <= last; ++i) ticks_.push_back({i * step, number_text(i * step)});
}

void Scale::divide_by_powers(Ends ends) {
  const double decades = std::log10(maximum_ / minimum_);
  // Over few decades also 2 and 5 times the powers, over many not every power.
  const std::vector<double> factors = decades > 3 ? std::vector<double>{1} : std::vector<double>{1, 2, 5};
  const int every = std::max(1, static_cast<int>(std::ceil(decades / kMostTicks)));
  std::vector<double> all;
  for (int power = static_cast<int>(std::floor(std::log10(minimum_))) - every;
       power <= std::ceil(std::log10(maximum_)) + every; ++power) {
    if (power % every != 0) continue;
    for (const double factor : factors) all.push_back(factor * std::pow(10, power));
  }
  if (ends == Ends::ticks) {
    minimum_ = *(std::upper_bound(all.begin(), all.end(), minimum_ * (1 + kSlack)) - 1);
    maximum_ = *std::lower_bound(all.begin(), all.end(), maximum_ * (1 - kSlack));
  }
  for (const double value : all) ticks_.push_back({value, number_text(value)});
}

double Scale::operator()(double value) const {
  const double share = is_logarithmic() ? std::log(value / minimum_) / std::log(maximum_ / minimum_)
                                        : (value - minimum_) / (maximum_ - minimum_);
  return from_ + share * (to_ - from_);
}

bool Scale::shows(double value) const { return std::isfinite(value) && (!is_logarithmic() || value > 0); }

}  // namespace unisono::report::plot
