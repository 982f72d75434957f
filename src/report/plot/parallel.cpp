#include "plot/plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "plot/frame.hpp"

namespace unisono::report::plot {
namespace {

constexpr double kAxesTop = 48, kBottom = 12, kSide = 80;

class ParallelDrawer {
 public:
  explicit ParallelDrawer(const ParallelPlot& plot)
      : plot_(plot), drawing_(plot.width, kAxesTop + plot.height + kBottom) {
    for (std::size_t axis = 0; axis < plot.axes.size(); ++axis) scales_.push_back(scale_of(axis));
  }

  std::string draw() {
    for (std::size_t axis = 0; axis < plot_.axes.size(); ++axis) draw_axis(axis);
    std::vector<std::size_t> order(plot_.lines.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return plot_.lines[a].merit < plot_.lines[b].merit; });
    for (const std::size_t line : order) draw_line(plot_.lines[line]);
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

  void draw_line(const ParallelLine& line) {
    std::vector<Point> points;
    for (std::size_t axis = 0; axis < scales_.size(); ++axis) {
      if (scales_[axis].shows(line.values[axis])) points.push_back({x_of(axis), scales_[axis](line.values[axis])});
    }
    const double merit = std::clamp(line.merit, 0.0, 1.0);
    const std::string colour = colour_between(0, 1, merit);
    drawing_.polyline(points, {.colour = colour, .width = 1 + 1.5 * merit, .opacity = 0.25 + 0.7 * merit}, line.title);
  }

  const ParallelPlot& plot_;
  std::vector<Scale> scales_;
  SvgDrawing drawing_;
};

}  // namespace

std::string svg_of(const ParallelPlot& plot) { return ParallelDrawer(plot).draw(); }

}  // namespace unisono::report::plot
