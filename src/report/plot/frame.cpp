#include "plot/frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "unisono/base/errors.hpp"

namespace unisono::report::plot {
namespace {

constexpr double kLine = 18, kSwatch = 18, kGap = 16;

double key_width(const Key& key) { return kSwatch + 6 + width_of(key.name) + kGap; }

void draw_key(SvgDrawing& drawing, Point at, const Key& key) {
  if (key.is_line) {
    const std::array line = {Point{at.x, at.y + 7}, Point{at.x + kSwatch, at.y + 7}};
    drawing.polyline(line, {.colour = key.colour, .width = 2.5, .dashes = key.dashes});
  } else {
    drawing.rectangle({at.x + 3, at.y + 1, 12, 12}, key.colour);
  }
  drawing.text({at.x + kSwatch + 6, at.y + 11}, key.name, {.size = kFontSize, .colour = kText});
}

void begin_axis(SvgDrawing& drawing, const char* kind, const Scale& scale) {
  const std::array data = {SvgDrawing::Datum{"minimum", fmt::format("{:.9g}", scale.minimum())},
                           SvgDrawing::Datum{"maximum", fmt::format("{:.9g}", scale.maximum())},
                           SvgDrawing::Datum{"spacing", scale.is_logarithmic() ? "logarithmic" : "linear"}};
  drawing.begin_group(kind, data);
}

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

constexpr double kRoomForNumber = 64, kRowsTop = 8, kWidestRowName = 220;  // right: room for a number behind a bar

Box area_of(const RowFrame::Size& size, const std::vector<std::string>& rows, const std::vector<Key>& keys) {
  double names = 0;
  for (const std::string& row : rows) names = std::max(names, width_of(row));
  const double left = std::min(names, kWidestRowName) + 10;
  const double top = kRowsTop + legend_height(keys, size.width - 20);
  return {left, top, size.width - left - kRoomForNumber, size.row_height * static_cast<double>(rows.size())};
}

}  // namespace

double width_of(const std::string& text, double size) {
  const auto characters =
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
  return 0.6 * size * static_cast<double>(characters);
}

double legend_height(const std::vector<Key>& keys, double width) {
  if (keys.empty()) return 0;
  double x = 0, lines = 1;
  for (const Key& key : keys) {
    if (x > 0 && x + key_width(key) > width) {
      x = 0;
      ++lines;
    }
    x += key_width(key);
  }
  return lines * kLine + 6;
}

void draw_legend(SvgDrawing& drawing, Point corner, double width, const std::vector<Key>& keys) {
  drawing.begin_group("legend");
  double x = 0, y = corner.y;
  for (const Key& key : keys) {
    if (x > 0 && x + key_width(key) > width) {
      x = 0;
      y += kLine;
    }
    draw_key(drawing, {corner.x + x, y}, key);
    x += key_width(key);
  }
  drawing.end_group();
}

void draw_x_axis(SvgDrawing& drawing, const Box& area, const Scale& scale, const std::string& label) {
  const double bottom = area.y + area.height;
  begin_axis(drawing, "axis x", scale);
  double right = area.x - 100;  // where the last text ends
  for (const auto& [value, text] : scale.ticks()) {
    const double x = scale(value), half = width_of(text, 11) / 2;
    drawing.line({x, area.y}, {x, bottom}, kGrid);
    if (x - half < right + 4) continue;
    drawing.text({x, bottom + 16}, text, {.size = 11, .anchor = Anchor::middle, .colour = kFaint});
    right = x + half;
  }
  drawing.line({area.x, bottom}, {area.x + area.width, bottom}, kFaint);
  if (!label.empty()) {
    drawing.text({area.x + area.width / 2, bottom + 34}, label,
                 {.size = kFontSize, .anchor = Anchor::middle, .colour = kText});
  }
  drawing.end_group();
}

void draw_y_axis(SvgDrawing& drawing, const Box& area, const Scale& scale, const std::string& label) {
  begin_axis(drawing, "axis y", scale);
  for (const auto& [value, text] : scale.ticks()) {
    const double y = scale(value);
    drawing.line({area.x, y}, {area.x + area.width, y}, kGrid);
    drawing.text({area.x - 6, y + 4}, text, {.size = 11, .anchor = Anchor::end, .colour = kFaint});
  }
  drawing.line({area.x, area.y}, {area.x, area.y + area.height}, kFaint);
  if (!label.empty()) {
    drawing.text({area.x - room_left_of(scale, label) + 12, area.y + area.height / 2}, label,
                 {.size = kFontSize, .anchor = Anchor::middle, .colour = kText, .upwards = true});
  }
  drawing.end_group();
}

double room_left_of(const Scale& scale, const std::string& label) {
  double widest = 0;
  for (const auto& tick : scale.ticks()) widest = std::max(widest, width_of(tick.text, 11));
  return widest + 10 + (label.empty() ? 0 : 18);
}

double room_below(const std::string& label) { return label.empty() ? 22 : 42; }

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

std::string colour_of(std::size_t i) { return fmt::format("var(--series-{})", i % kSeriesColours + 1); }

std::string colour_between(std::size_t i, std::size_t j, double share) {
  return fmt::format("color-mix(in oklab, {} {:.0f}%, {})", colour_of(j), 100 * share, colour_of(i));
}

const char* dashes_of(std::size_t i) {
  constexpr std::array<const char*, 4> kDashes = {"", "6 3", "2 3", "8 3 2 3"};
  return kDashes[i / kSeriesColours % kDashes.size()];
}

std::string shortened(const std::string& name, double width, double size) {
  if (width_of(name, size) <= width) return name;
  const auto bytes = std::min(name.size(), static_cast<std::size_t>(std::max(1.0, width / (0.6 * size) - 1)));
  const auto is_within_character = [&](std::size_t at) {
    return at < name.size() && (static_cast<unsigned char>(name[at]) & 0xC0U) == 0x80U;
  };
  std::size_t head = bytes - bytes / 3, tail = name.size() - bytes / 3;
  while (head > 0 && is_within_character(head)) --head;
  while (is_within_character(tail)) ++tail;
  return name.substr(0, head) + "…" + name.substr(tail);
}

RowFrame::RowFrame(const Size& size, const std::vector<std::string>& rows, const std::vector<Key>& keys,
                   const Axis& axis, const Span& values, Scale::Ends ends)
    : row_height_(size.row_height),
      area_(area_of(size, rows, keys)),
      scale_(axis, values, ends, area_.x, area_.x + area_.width),
      drawing_(size.width, area_.y + area_.height + room_below(axis.label)) {
  draw_legend(drawing_, {4, kRowsTop - 4}, size.width - 20, keys);
  draw_x_axis(drawing_, area_, scale_, axis.label);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    drawing_.text({area_.x - 8, middle_of(row) + 4}, shortened(rows[row], kWidestRowName),
                  {.size = kFontSize, .anchor = Anchor::end, .colour = kText});
  }
}

}  // namespace unisono::report::plot
