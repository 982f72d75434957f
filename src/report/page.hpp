#pragma once

#include <string>
#include <variant>
#include <vector>

#include "plot/frame.hpp"

namespace unisono::report {

// A page is a list of sections, and a section a list of blocks. All texts are shown as they are.

struct Paragraph {
  std::string text;
};

/// A table; its columns are sorted by a click on their heads.
struct Table {
  std::string caption;
  std::vector<std::string> head;
  std::vector<std::vector<std::string>> rows;  ///< the first cell names the row
};

/// A drawing in SVG, made by plot/ or by another part of this program.
struct Drawing {
  std::string title;
  std::string svg;        ///< markup
  bool on_paper = false;  ///< drawn in black for a white background
};
/// Any plot of plot/.
template <typename Plot>
Drawing drawing_of(const Plot& plot) {
  return {.title = plot.caption.title, .svg = svg_of(plot)};
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

}  // namespace unisono::report
