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

std::string attributes_of(const SvgDrawing::Fill& fill) {
  const std::string colour = fmt::format(R"(fill="{}")", xml_escaped(fill.colour));
  return fill.opacity < 1 ? fmt::format(R"({} fill-opacity="{}")", colour, number(fill.opacity)) : colour;
}

std::string list_of(std::span<const SvgDrawing::Point> points) {
  std::string list;
  for (const auto& [x, y] : points) list += (list.empty() ? "" : " ") + number(x) + "," + number(y);
  return list;
}

}  // namespace

std::string xml_escaped(std::string_view text, std::string_view apostrophe, std::string_view kept) {
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
        escaped += apostrophe;
        break;
      default:
        escaped += static_cast<unsigned char>(c) < 0x20 && kept.find(c) == std::string_view::npos ? ' ' : c;
    }
  }
  return escaped;
}

SvgDrawing::SvgDrawing(double width, double height) : width_(width), height_(height) {}

/// A shape; the title is shown where the mouse rests on it.
void SvgDrawing::add_titled(std::string_view name, const std::string& attributes, std::string_view title) {
  shapes_ += fmt::format("<{} {}", name, attributes);
  shapes_ += title.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", xml_escaped(title), name);
}

void SvgDrawing::rectangle(const Box& box, std::string_view colour, std::string_view title) {
  rectangle(box, Fill{.colour = colour}, title);
}

void SvgDrawing::rectangle(const Box& box, const Fill& fill, std::string_view title) {
  add_titled("rect",
             fmt::format(R"(x="{}" y="{}" width="{}" height="{}" {})", number(box.x), number(box.y), number(box.width),
                         number(box.height), attributes_of(fill)),
             title);
}

void SvgDrawing::line(Point from, Point to, std::string_view colour) {
  shapes_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{}\"/>\n", number(from.x),
                         number(from.y), number(to.x), number(to.y), xml_escaped(colour));
}

void SvgDrawing::polyline(std::span<const Point> points, const Stroke& stroke, std::string_view title) {
  std::string attributes = fmt::format(R"(points="{}" fill="none" stroke="{}" stroke-width="{}")", list_of(points),
                                       xml_escaped(stroke.colour), number(stroke.width));
  if (!stroke.dashes.empty()) attributes += fmt::format(R"( stroke-dasharray="{}")", xml_escaped(stroke.dashes));
  if (stroke.opacity < 1) attributes += fmt::format(R"( stroke-opacity="{}")", number(stroke.opacity));
  add_titled("polyline", attributes, title);
}

void SvgDrawing::polygon(std::span<const Point> points, const Fill& fill) {
  add_titled("polygon", fmt::format(R"(points="{}" {})", list_of(points), attributes_of(fill)), "");
}

void SvgDrawing::circle(Point centre, double radius, const Fill& fill, std::string_view title) {
  add_titled("circle",
             fmt::format(R"(cx="{}" cy="{}" r="{}" {})", number(centre.x), number(centre.y), number(radius),
                         attributes_of(fill)),
             title);
}

void SvgDrawing::text(Point at, std::string_view text, const TextStyle& style) {
  const std::string x = number(at.x), y = number(at.y);
  std::string more;
  if (!style.colour.empty()) more += fmt::format(R"( fill="{}")", xml_escaped(style.colour));
  if (style.upwards) more += fmt::format(" transform=\"rotate(-90 {} {})\"", x, y);
  shapes_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" text-anchor=\"{}\"{}>{}</text>\n", x, y,
                         number(style.size), name_of(style.anchor), more, xml_escaped(text));
}

void SvgDrawing::begin_group(std::string_view kind, std::span<const Datum> data) {
  shapes_ += kind.empty() ? "<g" : fmt::format(R"(<g class="{}")", xml_escaped(kind));
  for (const Datum& datum : data) shapes_ += fmt::format(R"( data-{}="{}")", datum.name, xml_escaped(datum.value));
  shapes_ += ">\n";
}

void SvgDrawing::end_group() { shapes_ += "</g>\n"; }

std::string SvgDrawing::str() const {
  const std::string width = number(width_), height = number(height_);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{2}</svg>\n",
      width, height, shapes_);
}

std::string SvgDrawing::embedded(std::string_view title, std::string_view description) const {
  const std::string width = number(width_), height = number(height_);
  return fmt::format(
      "<svg role=\"img\" class=\"plot\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
      "<title>{2}</title>\n<desc>{3}</desc>\n{4}</svg>\n",
      width, height, xml_escaped(title), xml_escaped(description), shapes_);
}

}  // namespace unisono
