#include "plot/plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

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

namespace {

constexpr double kWidest = 620, kWidestName = 130;

class MatrixDrawer {
 public:
  explicit MatrixDrawer(const MatrixPlot& plot)
      : plot_(plot),
        cell_(std::clamp(kWidest / static_cast<double>(std::max<std::size_t>(1, plot.columns.size())), 8.0, 44.0)),
        left_(26 + widest(plot.rows)),
        top_(26 + (names_are_short() ? 18 : widest(plot.columns))),
        drawing_(left_ + cell_ * static_cast<double>(plot.columns.size()) + 8,
                 top_ + cell_ * static_cast<double>(plot.rows.size()) + 8),
        largest_(plot.values.empty() ? 0 : *std::max_element(plot.values.begin(), plot.values.end())) {}

  std::string draw() {
    draw_names();
    for (std::size_t row = 0; row < plot_.rows.size(); ++row) {
      for (std::size_t column = 0; column < plot_.columns.size(); ++column) draw_cell(row, column);
    }
    return drawing_.embedded(plot_.caption.title, plot_.caption.description);
  }

 private:
  static double widest(const std::vector<std::string>& names) {
    double width = 12;
    for (const std::string& name : names) width = std::max(width, width_of(name, 11) + 6);
    return std::min(width, kWidestName);
  }
  /// Whether the columns' names find room above them as they are; else they are turned.
  bool names_are_short() const { return widest(plot_.columns) <= cell_; }
  bool has_names() const { return cell_ >= 11; }

  void draw_names() {
    const SvgDrawing::TextStyle label = {.size = kFontSize, .anchor = Anchor::middle, .colour = kText};
    SvgDrawing::TextStyle upwards = label;
    upwards.upwards = true;
    drawing_.text({left_ + cell_ * static_cast<double>(plot_.columns.size()) / 2, 14}, plot_.column_label, label);
    drawing_.text({14, top_ + cell_ * static_cast<double>(plot_.rows.size()) / 2}, plot_.row_label, upwards);
    if (!has_names()) return;
    for (std::size_t i = 0; i < plot_.rows.size(); ++i) {
      drawing_.text({left_ - 6, middle(top_, i) + 4}, shortened(plot_.rows[i], kWidestName, 11),
                    {.size = 11, .anchor = Anchor::end, .colour = kFaint});
    }
    for (std::size_t i = 0; i < plot_.columns.size(); ++i) {
      const bool turned = !names_are_short();
      const std::string name = shortened(plot_.columns[i], kWidestName, 11);
      drawing_.text(
          {middle(left_, i) + (turned ? 4 : 0), top_ - 6}, name,
          {.size = 11, .anchor = turned ? Anchor::start : Anchor::middle, .colour = kFaint, .upwards = turned});
    }
  }

  double middle(double start, std::size_t i) const { return start + cell_ * (static_cast<double>(i) + 0.5); }

  void draw_cell(std::size_t row, std::size_t column) {
    const std::size_t at = row * plot_.columns.size() + column;
    const double value = plot_.values[at];
    const double shade = !plot_.shades.empty() ? plot_.shades[at] : largest_ > 0 ? std::max(0.0, value / largest_) : 0;
    const double x = middle(left_, column), y = middle(top_, row);
    const Box box = {x - cell_ / 2, y - cell_ / 2, cell_ - 1, cell_ - 1};
    drawing_.rectangle(box, kGrid);
    drawing_.rectangle(box, {.colour = kShade, .opacity = std::isfinite(shade) ? shade : 0},
                       fmt::format("{} {}, {} {}: {}", plot_.row_label, plot_.rows[row], plot_.column_label,
                                   plot_.columns[column], number_text(value)));
    const std::string text = number_text(value);
    const double size = std::min(11.0, 11 * (cell_ - 4) / std::max(1.0, width_of(text, 11)));
    if (size < 7 || value == 0) return;
    drawing_.text({x, y + 4}, text, {.size = size, .anchor = Anchor::middle, .colour = shade > 0.5 ? kOnShade : kText});
  }

  const MatrixPlot& plot_;
  double cell_, left_, top_;
  SvgDrawing drawing_;
  double largest_;
};

}  // namespace

std::string svg_of(const MatrixPlot& plot) { return MatrixDrawer(plot).draw(); }

namespace {

constexpr double kAxesTop = 48, kBottom = 12, kSide = 80;

class ParallelDrawer {
 public:
  explicit ParallelDrawer(const ParallelPlot& plot)
      : plot_(plot), drawing_(plot.width, kAxesTop + plot.height + kBottom) {
    for (std::size_t axis = 0; axis < plot.axes.size(); ++axis) scales_.push_back(scale_of(axis));
  }

  std::string draw() {
    std::vector<std::size_t> order(plot_.lines.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return plot_.lines[a].merit < plot_.lines[b].merit; });
    for (const std::size_t line : order) draw_line(plot_.lines[line]);
    for (std::size_t axis = 0; axis < plot_.axes.size(); ++axis) draw_axis(axis);  // labels lie above the lines
    return drawing_.embedded(plot_.caption.title, plot_.caption.description);
  }

 private:
  double x_of(std::size_t axis) const {
    const auto gaps = static_cast<double>(std::max<std::size_t>(2, plot_.axes.size()) - 1);
    return kSide + (plot_.width - 2 * kSide) * static_cast<double>(axis) / gaps;
  }

  Scale scale_of(std::size_t axis) const {
    const Axis& one = plot_.axes[axis];
    Span span(one.spacing);
    for (const ParallelLine& line : plot_.lines) span.add(line.values[axis]);
    return {one, span, Scale::Ends::ticks, kAxesTop + plot_.height, kAxesTop};
  }

  void draw_axis(std::size_t axis) {
    const double x = x_of(axis);
    const Scale& scale = scales_[axis];
    const std::array data = {SvgDrawing::Datum{"name", plot_.axes[axis].label},
                             SvgDrawing::Datum{"minimum", fmt::format("{:.9g}", scale.minimum())},
                             SvgDrawing::Datum{"maximum", fmt::format("{:.9g}", scale.maximum())}};
    drawing_.begin_group("axis parallel", data);
    drawing_.line({x, kAxesTop}, {x, kAxesTop + plot_.height}, kFaint);
    // Names stand in two rows by turns, so that each has the room of two; those at the ends have less.
    const bool at_end = axis == 0 || axis + 1 == scales_.size();
    const double room =
        2 * (plot_.width - 2 * kSide) / static_cast<double>(std::max<std::size_t>(2, scales_.size()) - 1);
    drawing_.text({x, axis % 2 == 0 ? 16.0 : 33.0},
                  shortened(plot_.axes[axis].label, std::min(room, at_end ? 2 * kSide : room) - 6),
                  {.size = kFontSize, .anchor = Anchor::middle, .colour = kText});
    for (const auto& [value, text] : scale.ticks()) {
      drawing_.text({x - 5, scale(value) + 4}, shortened(text, kSide - 8, 10),
                    {.size = 10, .anchor = Anchor::end, .colour = kFaint});
    }
    drawing_.end_group();
  }

  /// With a gap where a trial has no value of an axis.
  void draw_line(const ParallelLine& line) {
    constexpr double kStub = 7;  // to both sides of a value without neighbours
    const double merit = std::clamp(line.merit, 0.0, 1.0);
    const std::string colour = colour_between(0, 1, merit);
    const SvgDrawing::Stroke style{.colour = colour, .width = 1 + 1.5 * merit, .opacity = 0.25 + 0.7 * merit};
    std::vector<Point> points;
    for (std::size_t axis = 0; axis <= scales_.size(); ++axis) {
      if (axis < scales_.size() && scales_[axis].shows(line.values[axis])) {
        points.push_back({x_of(axis), scales_[axis](line.values[axis])});
        continue;
      }
      if (points.size() == 1) {
        const Point alone = points.front();
        points = {{alone.x - kStub, alone.y}, {alone.x + kStub, alone.y}};
      }
      if (!points.empty()) drawing_.polyline(points, style, line.title);
      points.clear();
    }
  }

  const ParallelPlot& plot_;
  std::vector<Scale> scales_;
  SvgDrawing drawing_;
};

}  // namespace

std::string svg_of(const ParallelPlot& plot) { return ParallelDrawer(plot).draw(); }

namespace {

constexpr double kRight = 16, kXyTop = 8;
constexpr std::size_t kMostPoints = 1200, kMostTitles = 80;

std::vector<Key> keys_of(const XyPlot& plot) {
  std::vector<Key> keys;
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const Series& series = plot.series[i];
    const std::size_t colour = series.colour.value_or(i);
    keys.push_back({.name = series.name,
                    .colour = colour_of(colour),
                    .dashes = dashes_of(colour),
                    .is_line = series.mark != Mark::points});
  }
  const bool needed = keys.size() > 1 || (keys.size() == 1 && !keys.front().name.empty());
  return needed ? keys : std::vector<Key>{};
}

class XyDrawer {
 public:
  explicit XyDrawer(const XyPlot& plot)
      : plot_(plot),
        keys_(keys_of(plot)),
        legend_(legend_height(keys_, plot.width - 40)),
        y_(plot.y, span_of_y(plot), Scale::Ends::ticks, kXyTop + legend_ + plot.height, kXyTop + legend_),
        left_(room_left_of(y_, plot.y.label)),
        area_{left_, kXyTop + legend_, plot.width - left_ - kRight, plot.height},
        x_(plot.x, span_of_x(plot), Scale::Ends::values, area_.x, area_.x + area_.width),
        drawing_(plot.width, area_.y + area_.height + room_below(plot.x.label)) {}

  std::string draw() {
    if (!keys_.empty()) draw_legend(drawing_, {left_, kXyTop - 4}, plot_.width - 40, keys_);
    draw_x_axis(drawing_, area_, x_, plot_.x.label);
    draw_y_axis(drawing_, area_, y_, plot_.y.label);
    for (std::size_t i = 0; i < plot_.series.size(); ++i) draw_series(thinned(plot_.series[i], kMostPoints), i);
    return drawing_.embedded(plot_.caption.title, plot_.caption.description);
  }

 private:
  static Span span_of_x(const XyPlot& plot) {
    Span span(plot.x.spacing);
    for (const Series& series : plot.series) span.add(series.x);
    return span;
  }
  static Span span_of_y(const XyPlot& plot) {
    Span span(plot.y.spacing);
    for (const Series& series : plot.series) {
      for (const auto* values : {&series.y, &series.low, &series.high}) span.add(*values);
    }
    return span;
  }

  bool shows(const Series& series, std::size_t i) const { return x_.shows(series.x[i]) && y_.shows(series.y[i]); }

  void draw_series(const Series& series, std::size_t number) {
    const std::size_t colour = series.colour.value_or(number);
    const std::array name = {SvgDrawing::Datum{"name", series.name}};
    drawing_.begin_group("series", name);
    if (!series.low.empty()) draw_band(series, colour);
    if (series.mark != Mark::points) draw_line(series, colour);
    draw_points(series, colour);
    drawing_.end_group();
  }

  void draw_band(const Series& series, std::size_t colour) {
    std::vector<Point> outline;
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (x_.shows(series.x[i]) && y_.shows(series.high[i])) outline.push_back({x_(series.x[i]), y_(series.high[i])});
    }
    for (std::size_t i = series.x.size(); i-- > 0;) {
      if (x_.shows(series.x[i]) && y_.shows(series.low[i])) outline.push_back({x_(series.x[i]), y_(series.low[i])});
    }
    drawing_.polygon(outline, {.colour = colour_of(colour), .opacity = 0.2});
  }

  void draw_line(const Series& series, std::size_t colour) {
    std::vector<Point> part;
    const auto end_part = [&] {
      const std::string stroke = colour_of(colour);
      if (part.size() > 1) drawing_.polyline(part, {.colour = stroke, .width = 1.8, .dashes = dashes_of(colour)});
      part.clear();
    };
    for (std::size_t i = 0; i < series.x.size(); ++i) {
      if (shows(series, i)) {
        part.push_back({x_(series.x[i]), y_(series.y[i])});
      } else {
        end_part();
      }
    }
    end_part();
  }

  /// Points that are seen; on a line, also places where the mouse finds numbers.
  void draw_points(const Series& series, std::size_t colour) {
    const bool are_seen = series.mark != Mark::line || series.x.size() == 1;
    const std::size_t every = are_seen ? 1 : series.x.size() / kMostTitles + 1;
    for (std::size_t i = 0; i < series.x.size(); i += every) {
      if (!shows(series, i)) continue;
      const std::string title = i < series.titles.size() ? series.titles[i] : title_of(series, i);
      const Point at = {x_(series.x[i]), y_(series.y[i])};
      drawing_.circle(at, are_seen ? 3.2 : 6, {.colour = colour_of(colour), .opacity = are_seen ? 1.0 : 0.0}, title);
    }
  }

  std::string title_of(const Series& series, std::size_t i) const {
    const std::string name = series.name.empty() ? "" : series.name + ": ";
    return fmt::format("{}{} at {}", name, number_text(series.y[i]), number_text(series.x[i]));
  }

  const XyPlot& plot_;
  std::vector<Key> keys_;
  double legend_;
  Scale y_;
  double left_;
  Box area_;
  Scale x_;
  SvgDrawing drawing_;
};

}  // namespace

std::string svg_of(const XyPlot& plot) { return XyDrawer(plot).draw(); }

Series thinned(const Series& series, std::size_t most) {
  const std::size_t points = series.x.size();
  if (points <= most || !series.titles.empty()) return series;
  const std::size_t part = 3 * points / most + 1;
  std::vector<std::size_t> kept;
  for (std::size_t first = 0; first < points; first += part) {
    std::size_t least = first, largest = first;
    for (std::size_t i = first; i < std::min(points, first + part); ++i) {
      if (!std::isfinite(series.y[i])) continue;
      // Any of these replaces one that is not a number, too.
      if (!(series.y[least] <= series.y[i])) least = i;
      if (!(series.y[largest] >= series.y[i])) largest = i;
    }
    kept.insert(kept.end(), {first, least, largest});
  }
  kept.push_back(points - 1);
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  Series fewer = series;
  for (auto list : {&Series::x, &Series::y, &Series::low, &Series::high}) {
    if ((series.*list).empty()) continue;
    (fewer.*list).clear();
    for (const std::size_t i : kept) (fewer.*list).push_back((series.*list)[i]);
  }
  return fewer;
}

}  // namespace unisono::report::plot
