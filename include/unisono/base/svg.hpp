#pragma once

#include <span>
#include <string>
#include <string_view>

namespace unisono {

/// A drawing in SVG 1.1. Lengths are in pixels, from the upper left corner; colours are CSS's, e.g. "#56b4e9", or
/// "var(--text)" where the drawing becomes part of a page. Later shapes cover earlier ones. Texts may hold any UTF-8.
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
    std::string_view colour = "";   ///< empty: black, or what the page around it says
    bool upwards = false;           ///< turned by 90°, to be read from below
  };
  struct Stroke {
    std::string_view colour;
    double width = 1;
    std::string_view dashes = "";  ///< lengths of strokes and gaps: "6 3"; empty: a solid line
    double opacity = 1;
  };
  struct Fill {
    std::string_view colour;
    double opacity = 1;
  };

  SvgDrawing(double width, double height);

  /// A filled rectangle. \param title shown where the mouse rests on it; empty: none
  void rectangle(const Box& box, std::string_view colour, std::string_view title = "");
  void rectangle(const Box& box, const Fill& fill, std::string_view title = "");
  void line(Point from, Point to, std::string_view colour);
  void polyline(std::span<const Point> points, const Stroke& stroke, std::string_view title = "");
  void polygon(std::span<const Point> points, const Fill& fill);
  void circle(Point centre, double radius, const Fill& fill, std::string_view title = "");
  /// A line of text. \param at on the text's baseline
  void text(Point at, std::string_view text, const TextStyle& style);
  void text(Point at, std::string_view text) { this->text(at, text, TextStyle()); }

  /// A fact about a group that programs read: {"minimum", "0"} becomes data-minimum="0".
  struct Datum {
    std::string_view name;
    std::string value;
  };
  /// Begins a group: all shapes until `end_group` belong together. \param kind the group's class; empty: none
  /// \param data facts about the group
  void begin_group(std::string_view kind, std::span<const Datum> data = {});
  void end_group();

  /// The drawing as the text of an SVG file.
  std::string str() const;
  /// The drawing as a part of a page: without a background, with texts that say what it shows to those who do not see
  /// it.
  std::string embedded(std::string_view title, std::string_view description) const;

 private:
  void add_titled(std::string_view name, const std::string& attributes, std::string_view title);

  double width_, height_;
  std::string shapes_;
};

/// Text for XML: '&', '<', '>' and quotes as entities; control characters, which XML lacks, as spaces.
/// \param apostrophe the entity that stands for an apostrophe \param kept control characters that stay as they are
std::string xml_escaped(std::string_view text, std::string_view apostrophe = "&apos;", std::string_view kept = "");

}  // namespace unisono
