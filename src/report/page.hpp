#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plot/frame.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/report/report.hpp"

namespace unisono::report {

// A page is a list of sections, and a section a list of blocks. All texts are shown as they are.

struct Paragraph {
  std::string text;
};

/// A table; its columns are sorted by a click on their heads. Numbers are aligned to the right, texts to the left.
struct Table {
  std::string caption;
  std::vector<std::string> head = {};
  std::vector<std::vector<std::string>> rows = {};  ///< the first cell names the row
};

/// A drawing in SVG, made by plot/ or by another part of this program.
struct Drawing {
  std::string title;
  std::string svg;        ///< markup
  double width = 640;     ///< of the drawing, in pixels, before the page fits it to the space that there is
  bool on_paper = false;  ///< drawn in black for a white background
};
/// Any plot of plot/.
template <typename Plot>
Drawing drawing_of(const Plot& plot) {
  Drawing drawing{.title = plot.caption.title, .svg = svg_of(plot)};
  if constexpr (requires { plot.width; }) drawing.width = plot.width;
  return drawing;
}

/// Small pictures of pixels, beside each other.
struct Picture {
  std::string png;  ///< the file's bytes
  std::string meaning;
  std::vector<std::string> lines;  ///< below it
};
struct Pictures {
  std::vector<Picture> pictures;
};

/// A long text that is shown on demand, line by line as it is.
struct Folded {
  std::string summary, text;
};

using Block = std::variant<Paragraph, Table, Drawing, Pictures, Folded>;

struct Section {
  std::string title;
  std::vector<Block> blocks = {};
};

struct Page {
  std::string title, subtitle;
  std::vector<Section> sections = {};

  /// Adds a section, unless it is empty.
  void add(Section section) {
    if (!section.blocks.empty()) sections.push_back(std::move(section));
  }
};

/// What every page of ours begins with.
inline constexpr std::string_view kPageBegin = "<!DOCTYPE html>\n<!-- A report of unisono -->\n";

/// One HTML file that needs nothing else: styles, drawings and pictures are inside, and nothing is loaded.
std::string to_html(const Page& page);

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

std::string base64(std::string_view bytes);

/// A picture as a PNG file. \param channels 1 (gray) or 3 (red, green, blue)
/// \param pixels [height, width, channels]
std::string png_of(int width, int height, int channels, std::span<const std::uint8_t> pixels);

/// CSS of all pages, with the colours of plot/frame.hpp, for light and dark.
extern const std::string_view kPageStyle;
/// JavaScript of all pages: tables that are sorted by a click on a column's head.
extern const std::string_view kPageScript;

/// A kind of page. Each has a file of its own, and a line in the table of page.cpp.
struct PageKind {
  std::string_view what;  ///< that it is about: "a run"
  bool (*fits)(const std::vector<std::string>& folders);
  Page (*make)(const ReportOptions& options, Log& log);
};

/// The `fits` of a page about one folder of this owner.
template <records::FolderOwner owner>
bool is_one(const std::vector<std::string>& folders) {
  return folders.size() == 1 && records::owner_of(folders.front()) == owner;
}

extern const PageKind kRunPage;   ///< one run
extern const PageKind kRunsPage;  ///< several runs beside each other
extern const PageKind kSearchPage;
extern const PageKind kValidationPage;  ///< a cross-validation
extern const PageKind kStudyPage;

/// In the order in which they are tried.
std::span<const PageKind* const> page_kinds();

using plot::number_text;

/// "0.42 s", "0:12", "1:02:03"
std::string duration_text(double seconds);
/// A part of a whole: "12.3 %"
std::string share_text(double part, double whole);
/// The number of this name in an object; NaN where there is none.
double number_in(const nlohmann::ordered_json& object, const char* name);
/// A value of a config without the quotes of a string.
std::string unquoted(const std::string& value);

}  // namespace unisono::report
