#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace unisono::report {

/// Markup of HTML. Text becomes markup only by being escaped, so what files hold is never taken for markup.
class Html {
 public:
  Html() = default;
  /// A text that is shown as it is.
  Html(std::string_view text);  // NOLINT(google-explicit-constructor): escaping is what one wants everywhere
  Html(const char* text) : Html(std::string_view(text)) {}         // NOLINT(google-explicit-constructor)
  Html(const std::string& text) : Html(std::string_view(text)) {}  // NOLINT(google-explicit-constructor)
  /// Markup that this program has made itself, such as a drawing.
  static Html own(std::string markup);

  Html& operator+=(const Html& more);
  const std::string& str() const { return markup_; }

 private:
  std::string markup_;
};

struct HtmlAttribute {
  std::string_view name;
  std::string value;  ///< any text
};

/// <name attribute="value">content</name>
Html element(std::string_view name, const std::vector<HtmlAttribute>& attributes, const Html& content);
Html element(std::string_view name, const Html& content);
/// An element that has no content and no end: <img …>
Html void_element(std::string_view name, const std::vector<HtmlAttribute>& attributes);

}  // namespace unisono::report
