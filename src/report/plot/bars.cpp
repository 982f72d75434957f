#include "plot/plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plot/frame.hpp"

namespace unisono::report::plot {
namespace {

std::vector<Key> keys_of(const std::vector<std::string>& names) {
  std::vector<Key> keys;
  for (std::size_t i = 0; i < names.size(); ++i) keys.push_back({.name = names[i], .colour = colour_of(i)});
  return keys;
}

double sum_of_row(const BarPlot& plot, std::size_t row) {
  double sum = 0;
  for (const BarSeries& series : plot.series) sum += series.values[row];
  return sum;
}

void draw_bar(RowFrame& frame, const BarPlot& plot, std::size_t row) {
  const double height = 0.7 * frame.row_height(), top = frame.middle_of(row) - height / 2;
  double before = 0;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const auto& [name, values] = plot.series[i];
    const double left = frame.scale()(before), right = frame.scale()(before + values[row]);
    before += values[row];
    if (values[row] <= 0) continue;
    const std::string title =
        fmt::format("{}{}{}: {}", plot.rows[row], name.empty() ? "" : ", ", name, number_text(values[row]));
    frame.drawing().rectangle({left, top, std::max(0.5, right - left), height}, colour_of(i), title);
  }
  frame.drawing().text({frame.scale()(before) + 5, frame.middle_of(row) + 4}, number_text(before),
                       {.size = 11, .colour = kFaint});
}

void draw_interval(RowFrame& frame, const Interval& one, std::size_t row) {
  const double y = frame.middle_of(row);
  const std::string colour = colour_of(one.colour);
  const std::array line = {Point{frame.scale()(one.low), y}, Point{frame.scale()(one.high), y}};
  const std::string title = one.title.empty() ? fmt::format("{}: {} ({} to {})", one.row, number_text(one.value),
                                                            number_text(one.low), number_text(one.high))
                                              : one.title;
  frame.drawing().polyline(line, {.colour = colour, .width = 2.5}, title);
  frame.drawing().circle({frame.scale()(one.value), y}, 4.5, {.colour = colour}, title);
}

void draw_margin(RowFrame& frame, const IntervalPlot& plot) {
  const Box& area = frame.area();
  if (plot.margin) {
    const double left = frame.scale()(plot.margin->minimum), right = frame.scale()(plot.margin->maximum);
    frame.drawing().rectangle(
        {left, area.y, right - left, area.height}, {.colour = kFaint, .opacity = 0.18},
        fmt::format("{} to {}", number_text(plot.margin->minimum), number_text(plot.margin->maximum)));
  }
  if (plot.reference) {
    const double x = frame.scale()(*plot.reference);
    const std::array line = {Point{x, area.y}, Point{x, area.y + area.height}};
    frame.drawing().polyline(line, {.colour = kText, .dashes = "4 3"});
  }
}

void draw_block(RowFrame& frame, const TimeBlock& block) {
  const double height = 0.8 * frame.row_height(), top = frame.middle_of(block.row) - height / 2;
  const double left = frame.scale()(block.start), width = frame.scale()(block.end) - left;
  const double gap = std::min(1.0, width / 10);  // between neighbours
  frame.drawing().rectangle({left, top, std::max(0.5, width - gap), height}, colour_of(block.colour), block.title);
  if (block.text.empty() || width_of(block.text, 10) + 2 > width) return;
  frame.drawing().text({left + width / 2, frame.middle_of(block.row) + 4}, block.text,
                       {.size = 10, .anchor = Anchor::middle, .colour = kOnShade});
}

}  // namespace

std::string svg_of(const BarPlot& plot) {
  Span span;
  span.add(0);
  for (std::size_t row = 0; row < plot.rows.size(); ++row) span.add(sum_of_row(plot, row));
  std::vector<std::string> names;
  for (const BarSeries& series : plot.series) names.push_back(series.name);
  if (names.size() == 1 && names.front().empty()) names.clear();
  RowFrame frame({.width = plot.width, .row_height = 22}, plot.rows, keys_of(names), plot.value, span,
                 Scale::Ends::ticks);
  for (std::size_t row = 0; row < plot.rows.size(); ++row) draw_bar(frame, plot, row);
  return frame.drawing().embedded(plot.caption.title, plot.caption.description);
}

std::string svg_of(const IntervalPlot& plot) {
  Span span(plot.value.spacing);
  std::vector<std::string> rows;
  for (const Interval& one : plot.intervals) {
    rows.push_back(one.row);
    for (const double value : {one.low, one.value, one.high}) span.add(value);
  }
  if (plot.reference) span.add(*plot.reference);
  if (plot.margin) {
    span.add(plot.margin->minimum);
    span.add(plot.margin->maximum);
  }
  RowFrame frame({.width = plot.width, .row_height = 24}, rows, plot.keys, plot.value, span, Scale::Ends::ticks);
  draw_margin(frame, plot);
  for (std::size_t row = 0; row < rows.size(); ++row) draw_interval(frame, plot.intervals[row], row);
  return frame.drawing().embedded(plot.caption.title, plot.caption.description);
}

std::string svg_of(const Timeline& timeline) {
  Span span;
  for (const TimeBlock& block : timeline.blocks) {
    span.add(block.start);
    span.add(block.end);
  }
  RowFrame frame({.width = timeline.width, .row_height = 26}, timeline.rows, keys_of(timeline.kinds), timeline.time,
                 span, Scale::Ends::values);
  for (const TimeBlock& block : timeline.blocks) draw_block(frame, block);
  return frame.drawing().embedded(timeline.caption.title, timeline.caption.description);
}

}  // namespace unisono::report::plot
