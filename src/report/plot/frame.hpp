#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/base/svg.hpp"

namespace unisono::report::plot {

enum class Spacing { linear, logarithmic };

/// What an axis shows.
struct Axis {
  std::string label = {};
  Spacing spacing = Spacing::linear;
  std::optional<double> minimum = {}, maximum = {};  ///< in place of what the values span
  std::vector<std::string> choices = {};             ///< values are numbers of these; empty: quantities
};

struct Range {
  double minimum = 0, maximum = 1;
};

/// What the finite values of some lists span; on a logarithmic axis, the positive ones. Nothing: there are none.
class Span {
 public:
  explicit Span(Spacing spacing = Spacing::linear) : spacing_(spacing) {}
  void add(double value);
  void add(std::span<const double> values);
  std::optional<Range> range() const { return range_; }

 private:
  Spacing spacing_;
  std::optional<Range> range_;
};

/// Places values of an axis on a line of pixels, and chooses its ticks: 1, 2 or 5 times powers of ten.
class Scale {
 public:
  enum class Ends {
    values,  ///< the axis ends where the values do
    ticks    ///< … at the next ticks outside of them
  };
  /// \param from, to where the axis begins and ends, in pixels
  Scale(const Axis& axis, const Span& values, Ends ends, double from, double to);

  /// The pixel of a value; values outside of the axis are placed outside of it.
  double operator()(double value) const;
  /// Whether the axis can show a value: it is finite, and positive where the axis is logarithmic.
  bool shows(double value) const;
  double minimum() const { return minimum_; }
  double maximum() const { return maximum_; }
  bool is_logarithmic() const { return spacing_ == Spacing::logarithmic; }

  struct Tick {
    double value;
    std::string text;
  };
  const std::vector<Tick>& ticks() const { return ticks_; }

 private:
  void divide_evenly(Ends ends);
  void divide_by_powers(Ends ends);

  Spacing spacing_;
  double from_, to_, minimum_, maximum_;
  std::vector<Tick> ticks_;
};

/// A number as people read it: "20,000", "0.25", "1e-06"; "–" where there is none.
std::string number_text(double value);

/// What a plot shows, for those who read it and those who cannot see it.
struct Caption {
  std::string title;
  std::string description = {};  ///< a sentence or two
};

using Box = SvgDrawing::Box;
using Point = SvgDrawing::Point;
using Anchor = SvgDrawing::Anchor;

inline constexpr double kFontSize = 12;
/// About how many pixels a text is wide.
double width_of(const std::string& text, double size = kFontSize);

/// An entry of a legend.
struct Key {
  std::string name;
  std::string colour;
  const char* dashes = "";
  bool is_line = false;
};

/// The height of a legend that is as wide as a plot.
double legend_height(const std::vector<Key>& keys, double width);
/// Draws it, with its upper left corner there.
void draw_legend(SvgDrawing& drawing, Point corner, double width, const std::vector<Key>& keys);

/// Draws an axis with ticks, lines across `area`, and its label, below or left of it. Programs find its range in
/// data-minimum and data-maximum of its group, whose classes are "axis x" and "axis y".
void draw_x_axis(SvgDrawing& drawing, const Box& area, const Scale& scale, const std::string& label);
void draw_y_axis(SvgDrawing& drawing, const Box& area, const Scale& scale, const std::string& label);
/// The room that the y axis needs left of the area.
double room_left_of(const Scale& scale, const std::string& label);
/// The room that the x axis needs below it.
double room_below(const std::string& label);

// Colours are CSS variables, which a page sets for light and for dark (page.cpp). The first seven of series
// follow Okabe and Ito, which people with any kind of colour vision tell apart.

inline constexpr std::size_t kSeriesColours = 9;
inline constexpr const char* kText = "var(--text)";
inline constexpr const char* kFaint = "var(--faint)";  ///< texts of less weight
inline constexpr const char* kGrid = "var(--grid)";
inline constexpr const char* kShade = "var(--series-1)";     ///< of cells of a matrix, by opacity
inline constexpr const char* kOnShade = "var(--on-series)";  ///< texts on it, where it is opaque

/// The colour of series i.
std::string colour_of(std::size_t i);
/// A colour between those of series i and j. \param share of j, from 0 to 1
std::string colour_between(std::size_t i, std::size_t j, double share);
/// The dashes of line i: solid as long as colours are new.
const char* dashes_of(std::size_t i);

/// A drawing of rows with names on the left, a legend above and an x axis below.
class RowFrame {
 public:
  struct Size {
    double width, row_height;
  };
  RowFrame(const Size& size, const std::vector<std::string>& rows, const std::vector<Key>& keys, const Axis& axis,
           const Span& values, Scale::Ends ends);

  SvgDrawing& drawing() { return drawing_; }
  const Scale& scale() const { return scale_; }
  const Box& area() const { return area_; }
  double middle_of(std::size_t row) const { return area_.y + row_height_ * (static_cast<double>(row) + 0.5); }
  double row_height() const { return row_height_; }

 private:
  double row_height_;
  Box area_;
  Scale scale_;
  SvgDrawing drawing_;
};

/// A name that is no wider than this: "a-very-long-…-name".
std::string shortened(const std::string& name, double width, double size = kFontSize);

}  // namespace unisono::report::plot
