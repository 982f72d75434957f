#pragma once

#include <string>
#include <vector>

#include "plot/frame.hpp"

namespace unisono::report::plot {

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
