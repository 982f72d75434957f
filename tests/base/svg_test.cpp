#include "unisono/base/svg.hpp"

#include <catch2/catch.hpp>

namespace unisono {

TEST_CASE("a drawing of each shape", "[svg]") {
  SvgDrawing drawing(100, 50.5);
  drawing.rectangle({1, 2, 30.25, 4}, "#56b4e9", "a < b");
  drawing.rectangle({1, 2, 3, 4}, "white");
  drawing.line({0, 0}, {10.126, 1.0 / 3}, "black");
  drawing.text({5, 6}, "R&D", {.size = 9, .anchor = SvgDrawing::Anchor::middle});
  drawing.text({-0.001, 6}, "é");
  CHECK(drawing.str() ==
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100\" height=\"50.5\" viewBox=\"0 0 100 50.5\" "
        "font-family=\"sans-serif\">\n"
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        "<rect x=\"1\" y=\"2\" width=\"30.25\" height=\"4\" fill=\"#56b4e9\"><title>a &lt; b</title></rect>\n"
        "<rect x=\"1\" y=\"2\" width=\"3\" height=\"4\" fill=\"white\"/>\n"
        "<line x1=\"0\" y1=\"0\" x2=\"10.13\" y2=\"0.33\" stroke=\"black\"/>\n"
        "<text x=\"5\" y=\"6\" font-size=\"9\" text-anchor=\"middle\">R&amp;D</text>\n"
        "<text x=\"0\" y=\"6\" font-size=\"12\" text-anchor=\"start\">é</text>\n"
        "</svg>\n");
}

TEST_CASE("text is escaped for XML", "[svg]") {
  CHECK(xml_escaped("<a href=\"x\">'&'</a>") == "&lt;a href=&quot;x&quot;&gt;&apos;&amp;&apos;&lt;/a&gt;");
  CHECK(xml_escaped("one\ntwo\x01") == "one two ");
}

}  // namespace unisono
