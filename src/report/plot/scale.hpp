#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

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

}  // namespace unisono::report::plot
