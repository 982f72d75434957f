#include "plot/plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "plot/frame.hpp"

namespace unisono::report::plot {
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

}  // namespace unisono::report::plot
