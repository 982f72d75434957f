#include "page.hpp"

#include <fmt/format.h>

#include "encode.hpp"
#include "html.hpp"
#include "page_style.hpp"

namespace unisono::report {
namespace {

Html html_of(const Paragraph& paragraph) { return element("p", paragraph.text); }

Html row_of(const std::vector<std::string>& cells) {
  Html row;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    row += i == 0 ? element("th", {{"scope", "row"}}, cells[i]) : element("td", cells[i]);
  }
  return element("tr", row);
}

Html html_of(const Table& table) {
  Html heads, rows, content = element("caption", table.caption);
  for (const std::string& head : table.head) {
    heads += element("th", {{"scope", "col"}}, element("button", {{"type", "button"}}, head));
  }
  for (const auto& row : table.rows) rows += row_of(row);
  if (!table.head.empty()) content += element("thead", element("tr", heads));
  content += element("tbody", rows);
  return element("div", {{"class", "table"}, {"tabindex", "0"}, {"role", "region"}, {"aria-label", table.caption}},
                 element("table", content));
}

Html html_of(const Drawing& drawing) {
  Html content = element("figcaption", drawing.title);
  content += drawing.on_paper ? element("div", {{"class", "paper"}}, Html::own(drawing.svg)) : Html::own(drawing.svg);
  return element("figure", {{"class", "drawing"}}, content);
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

}  // namespace unisono::report
