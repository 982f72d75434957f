#include "unisono/base/svg.hpp"

#include <fmt/format.h>

namespace unisono {
namespace {

std::string_view name_of(SvgDrawing::Anchor anchor) {
  switch (anchor) {
    case SvgDrawing::Anchor::start:
      return "start";
    case SvgDrawing::Anchor::middle:
      return "middle";
    case SvgDrawing::Anchor::end:
      return "end";
  }
  return "";
}

/// Hundredths of a pixel are enough; "12.5", not "12.50".
std::string number(double value) {
  std::string text = fmt::format("{:.2f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

}  // namespace

std::string xml_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&apos;";
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return escaped;
}

SvgDrawing::SvgDrawing(double width, double height) : width_(width), height_(height) {}

void SvgDrawing::rectangle(const Box& box, std::string_view colour, std::string_view title) {
  shapes_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="{}")", number(box.x), number(box.y),
                         number(box.width), number(box.height), xml_escaped(colour));
  shapes_ += title.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", xml_escaped(title));
}

void SvgDrawing::line(Point from, Point to, std::string_view colour) {
  shapes_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\"/>\n", number(from.x),
                         number(from.y), number(to.x), number(to.y), xml_escaped(colour));
}

void SvgDrawing::text(Point at, std::string_view text, const TextStyle& style) {
  shapes_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{}\">{}</text>\n", number(at.x),
                         number(at.y), number(style.size), name_of(style.anchor), xml_escaped(text));
}

std::string SvgDrawing::str() const {
  const std::string width = number(width_), height = number(height_);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
      width, height, shapes_);
}

}  // namespace unisono
