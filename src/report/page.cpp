#include "page.hpp"

#include <fmt/format.h>
#include <zlib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "unisono/base/svg.hpp"
#include "unisono/records/progress.hpp"

namespace unisono::report {
namespace {

Html html_of(const Paragraph& paragraph) { return element("p", paragraph.text); }

/// The columns of which some cell begins with a letter, a quote or a bracket.
std::set<std::size_t> text_columns(const Table& table) {
  std::set<std::size_t> columns;
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const char first = row[i].empty() ? '0' : row[i].front();
      const bool is_letter = std::isalpha(static_cast<unsigned char>(first)) != 0;
      if (is_letter || std::string_view("\"'[{(/_").find(first) != std::string_view::npos) columns.insert(i);
    }
  }
  return columns;
}

Html html_of(const Table& table) {
  const std::set<std::size_t> texts = text_columns(table);
  const auto attributes = [&](std::vector<HtmlAttribute> own, std::size_t column) {
    if (column > 0 && texts.contains(column)) own.push_back({"class", "text"});
    return own;
  };
  Html heads, rows, content = element("caption", table.caption);
  for (std::size_t i = 0; i < table.head.size(); ++i) {
    heads += element("th", attributes({{"scope", "col"}}, i), element("button", {{"type", "button"}}, table.head[i]));
  }
  for (const auto& cells : table.rows) {
    Html row;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      row += i == 0 ? element("th", {{"scope", "row"}}, cells[i]) : element("td", attributes({}, i), cells[i]);
    }
    rows += element("tr", row);
  }
  if (!table.head.empty()) content += element("thead", element("tr", heads));
  content += element("tbody", rows);
  return element("div", {{"class", "table"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", table.caption}},
                 element("table", content));
}

Html html_of(const Drawing& drawing) {
  Html content = element("figcaption", drawing.title);
  content += drawing.on_paper ? element("div", {{"class", "paper"}}, Html::own(drawing.svg)) : Html::own(drawing.svg);
  return element("figure", {{"class", "drawing"}, {"style", fmt::format("--width: {:.0f}", drawing.width)}}, content);
}

Html html_of(const Pictures& pictures) {
  Html content;
  for (const Picture& picture : pictures.pictures) {
    Html lines;
    for (const std::string& line : picture.lines) lines += element("div", line);
    Html one = void_element("img", {{"alt", picture.meaning}, {"src", "data:image/png;base64," + base64(picture.png)}});
    one += element("figcaption", lines);
    content += element("figure", one);
  }
  return element("div", {{"class", "pictures"}}, content);
}

Html html_of(const Folded& folded) {
  Html content = element("summary", folded.summary);
  content += element("pre", folded.text);
  return element("details", content);
}

std::string anchor_of(std::size_t section) { return fmt::format("section-{}", section + 1); }

Html contents_of(const Page& page) {
  Html items;
  for (std::size_t i = 0; i < page.sections.size(); ++i) {
    items += element("li", element("a", {{"href", "#" + anchor_of(i)}}, page.sections[i].title));
  }
  return element("nav", {{"aria-label", "Contents"}}, element("ul", items));
}

Html html_of(const Section& section, const std::string& anchor) {
  Html blocks;
  for (const Block& block : section.blocks) {
    blocks += std::visit([](const auto& one) { return html_of(one); }, block);
  }
  Html content = element("h2", {{"id", anchor}}, section.title);
  content += element("div", {{"class", "blocks"}}, blocks);
  return element("section", {{"aria-labelledby", anchor}}, content);
}

Html head_of(const Page& page) {
  Html head = void_element("meta", {{"charset", "utf-8"}});
  head += void_element("meta", {{"name", "viewport"}, {"content", "width=device-width, initial-scale=1"}});
  // The browser itself refuses to load anything.
  head += void_element("meta", {{"http-equiv", "Content-Security-Policy"},
                                {"content",
                                 "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                                 "img-src data:"}});
  // Browsers ask for an icon where a page names none.
  head += void_element("link", {{"rel", "icon"}, {"href", "data:,"}});
  head += element("title", page.title);
  head += element("style", Html::own(std::string(kPageStyle)));
  return element("head", head);
}

/// For contents and for values in quotes.
std::string escaped(std::string_view text) { return xml_escaped(text, "&#39;", "\n\t"); }

std::string start_of(std::string_view name, const std::vector<HtmlAttribute>& attributes) {
  std::string markup = "<" + std::string(name);
  for (const auto& [key, value] : attributes) markup += " " + std::string(key) + "=\"" + escaped(value) + "\"";
  return markup + ">";
}

/// Big-endian, as PNG has numbers.
std::string bytes_of(std::uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(number >> shift & 255U));
  return bytes;
}

const Bytef* data_of(std::string_view bytes) { return reinterpret_cast<const Bytef*>(bytes.data()); }

/// Length, kind, content, checksum.
std::string chunk(const std::string& kind, const std::string& content) {
  const std::string summed = kind + content;
  const auto sum = static_cast<std::uint32_t>(crc32(0, data_of(summed), static_cast<uInt>(summed.size())));
  return bytes_of(static_cast<std::uint32_t>(content.size())) + summed + bytes_of(sum);
}

std::string compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string result(size, '\0');
  compress(reinterpret_cast<Bytef*>(result.data()), &size, data_of(bytes), bytes.size());
  result.resize(size);
  return result;
}

}  // namespace

std::string to_html(const Page& page) {
  Html main = element("h1", page.title);
  main += element("p", {{"class", "subtitle"}}, page.subtitle);
  main += contents_of(page);
  for (std::size_t i = 0; i < page.sections.size(); ++i) main += html_of(page.sections[i], anchor_of(i));
  Html body = element("main", main);
  body += element("footer", "Written by unisono report.");
  body += element("script", Html::own(std::string(kPageScript)));
  Html document = head_of(page);
  document += element("body", body);
  return std::string(kPageBegin) + element("html", {{"lang", "en"}}, document).str();
}

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

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? kDigits[group >> (6 * (3 - k)) & 63U] : '=';
    }
  }
  return text;
}

std::string png_of(int width, int height, int channels, std::span<const std::uint8_t> pixels) {
  const auto row = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  std::string lines;
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    lines.push_back('\0');  // no filter
    const auto line = pixels.subspan(y * row, row);
    lines.append(line.begin(), line.end());
  }
  const std::string depth_and_colour = {8, static_cast<char>(channels == 3 ? 2 : 0), 0, 0, 0};
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", bytes_of(static_cast<std::uint32_t>(width)) + bytes_of(static_cast<std::uint32_t>(height)) +
                           depth_and_colour) +
         chunk("IDAT", compressed(lines)) + chunk("IEND", "");
}

// clang-format off
const std::string_view kPageStyle = R"css(
:root { color-scheme: light dark;
  --background: #ffffff; --card: #f6f7f9; --text: #1b1f24; --faint: #59636e; --grid: #dfe3e8; --link: #0059b3;
  --series-1: #0072b2; --series-2: #d55e00; --series-3: #008a64; --series-4: #b5568f; --series-5: #b87d00;
  --series-6: #2f9bdc; --series-7: #6b6b6b; --series-8: #7b5ccf; --series-9: #8a4b1d; --on-series: #ffffff; }
@media (prefers-color-scheme: dark) { :root {
  --background: #14171b; --card: #1d2127; --text: #e8eaed; --faint: #a2abb5; --grid: #343a42; --link: #7ab8ff;
  --series-1: #56b4e9; --series-2: #ff8a3d; --series-3: #2fc796; --series-4: #e29ac7; --series-5: #f0c443;
  --series-6: #9fd3ff; --series-7: #b4b4b4; --series-8: #b39df3; --series-9: #d39a6b; --on-series: #101316; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 79rem; background: var(--background); color: var(--text);
  font: 15px/1.5 system-ui, "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; border-bottom: 1px solid var(--grid); padding-bottom: .2rem; }
.subtitle { color: var(--faint); margin: .2rem 0 1rem; overflow-wrap: anywhere; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; list-style: none; padding: 0; margin: 0; }
a { color: var(--link); }
.blocks { display: flex; flex-wrap: wrap; gap: 1rem; }
.blocks > * { max-width: 100%; flex: 1 1 auto; }
.blocks > p, .blocks > details, .blocks > .pictures { flex-basis: 100%; margin: 0; }
.blocks > figure.drawing { flex-basis: max(330px, var(--width) * .75px); }
figure { margin: 0; }
figure.drawing, .table { background: var(--card); border-radius: 8px; padding: .7rem .9rem; overflow-x: auto; }
figure.drawing > figcaption, caption { font-weight: 600; text-align: left; padding-bottom: .4rem; color: var(--text); }
svg.plot { display: block; width: 100%; max-width: calc(var(--width) * 1.25px); height: auto; margin: auto; font-family: system-ui, "DejaVu Sans", sans-serif; }
.paper svg { background: #ffffff; max-width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
table:has(thead) { width: 100%; }
th, td { text-align: right; padding: .15rem .7rem; border-top: 1px solid var(--grid); vertical-align: top; }
th:first-child, td:first-child { padding-left: 0; }
tbody th { text-align: left; font-weight: 500; white-space: nowrap; }
td { white-space: nowrap; }
td.text { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 12rem; max-width: 44rem; }
thead th { border-top: 0; color: var(--faint); font-weight: 600; vertical-align: bottom; }
thead th:first-child, thead th.text { text-align: left; }
thead button { all: unset; cursor: pointer; }
thead button:focus-visible { outline: 2px solid var(--link); }
th[aria-sort=ascending] button::after { content: " ▲"; }
th[aria-sort=descending] button::after { content: " ▼"; }
.pictures { display: flex; flex-wrap: wrap; gap: .8rem; }
.pictures figure { width: 8.5rem; font-size: .8rem; color: var(--faint); }
.pictures img { width: 100%; image-rendering: pixelated; border-radius: 4px; background: #000; }
summary { cursor: pointer; color: var(--link); }
pre { background: var(--card); border-radius: 8px; padding: .8rem; overflow-x: auto; font-size: 12.5px; }
footer { margin-top: 2.5rem; color: var(--faint); font-size: .85rem; }
@media print { details { display: none; } body { max-width: none; } }
)css";

const std::string_view kPageScript = R"js(
for (const button of document.querySelectorAll("thead button")) button.addEventListener("click", () => {
  const head = button.parentElement, table = head.closest("table"), body = table.tBodies[0];
  const number = text => parseFloat(text.replace(/,/g, ""));
  const falls = head.getAttribute("aria-sort") === "ascending";
  const compare = (a, b) => {
    const x = a.cells[head.cellIndex].textContent, y = b.cells[head.cellIndex].textContent;
    const difference = number(x) - number(y);
    return (falls ? -1 : 1) * (Number.isNaN(difference) ? x.localeCompare(y) : difference);
  };
  for (const other of table.querySelectorAll("th[aria-sort]")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", falls ? "descending" : "ascending");
  body.append(...[...body.rows].sort(compare));
});
)js";
// clang-format on

std::span<const PageKind* const> page_kinds() {
  static constexpr std::array kKinds = {&kRunPage, &kRunsPage, &kSearchPage, &kValidationPage, &kStudyPage};
  return kKinds;
}

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "–";
  return seconds < 10 ? fmt::format("{:.3g} s", seconds) : records::clock_text(seconds);
}

std::string share_text(double part, double whole) {
  return whole > 0 && std::isfinite(part) ? fmt::format("{:.1f} %", 100 * part / whole) : "";
}

double number_in(const nlohmann::ordered_json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::string unquoted(const std::string& value) {
  const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  return quoted ? value.substr(1, value.size() - 2) : value;
}

}  // namespace unisono::report
