#include "plot/frame.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plot/colours.hpp"

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

}  // namespace unisono::report::plot
