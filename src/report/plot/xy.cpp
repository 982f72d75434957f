#include "plot/plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "plot/frame.hpp"

namespace unisono::report::plot {
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
