#include "html.hpp"

#include <utility>

namespace unisono::report {
namespace {

/// For contents and for values in quotes. Control characters that HTML lacks become spaces.
std::string escaped(std::string_view text) {
  std::string markup;
  for (const char c : text) {
    switch (c) {
      case '&':
        markup += "&amp;";
        break;
      case '<':
        markup += "&lt;";
        break;
      case '>':
        markup += "&gt;";
        break;
      case '"':
        markup += "&quot;";
        break;
      case '\'':
        markup += "&#39;";
        break;
      default:
        markup += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return markup;
}

std::string start_of(std::string_view name, const std::vector<HtmlAttribute>& attributes) {
  std::string markup = "<" + std::string(name);
  for (const auto& [key, value] : attributes) markup += " " + std::string(key) + "=\"" + escaped(value) + "\"";
  return markup + ">";
}

}  // namespace

Html::Html(std::string_view text) : markup_(escaped(text)) {}

Html Html::own(std::string markup) {
  Html html;
  html.markup_ = std::move(markup);
  return html;
}

Html& Html::operator+=(const Html& more) {
  markup_ += more.markup_;
  return *this;
}

Html element(std::string_view name, const std::vector<HtmlAttribute>& attributes, const Html& content) {
  return Html::own(start_of(name, attributes) + content.str() + "</" + std::string(name) + ">\n");
}

Html element(std::string_view name, const Html& content) { return element(name, {}, content); }

Html void_element(std::string_view name, const std::vector<HtmlAttribute>& attributes) {
  return Html::own(start_of(name, attributes));
}

}  // namespace unisono::report
