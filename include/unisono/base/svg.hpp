#pragma once

#include <string>
#include <string_view>

namespace unisono {

/// A drawing in SVG 1.1. Lengths are in pixels, from the upper left corner; colours are CSS's, e.g. "#56b4e9". Later
/// shapes cover earlier ones. Texts may hold any UTF-8.
class SvgDrawing {
 public:
  struct Point {
    double x = 0, y = 0;
  };
  struct Box {
    double x = 0, y = 0, width = 0, height = 0;
  };
  enum class Anchor { start, middle, end };
  struct TextStyle {
    double size = 12;
    Anchor anchor = Anchor::start;  ///< which part of the text is at the point
  };

  SvgDrawing(double width, double height);

  /// \param title shown where the mouse rests on it; empty: none
  void rectangle(const Box& box, std::string_view colour, std::string_view title = "");
  void line(Point from, Point to, std::string_view colour);
  /// \param at on the text's baseline
  void text(Point at, std::string_view text, const TextStyle& style);
  void text(Point at, std::string_view text) { this->text(at, text, TextStyle()); }

  /// The whole file.
  std::string str() const;

 private:
  double width_, height_;
  std::string shapes_;
};

/// Text for XML: '&', '<', '>' and quotes as entities; control characters, which XML lacks, as spaces.
std::string xml_escaped(std::string_view text);

}  // namespace unisono
