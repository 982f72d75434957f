#include "unisono/base/svg.hpp"

#include <array>
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

TEST_CASE("shapes of plots, in a drawing that is part of a page", "[svg]") {
  SvgDrawing drawing(10, 20);
  const std::array points = {SvgDrawing::Point{0, 1}, SvgDrawing::Point{2.5, 3}};
  const std::array data = {SvgDrawing::Datum{"name", "a \"b\""}};
  drawing.begin_group("series", data);
  drawing.polyline(points, {.colour = "red", .width = 1.5, .dashes = "6 3", .opacity = 0.5}, "<t>");
  drawing.polygon(points, {.colour = "var(--x)", .opacity = 0.25});
  drawing.circle({1, 2}, 3, {.colour = "blue"});
  drawing.end_group();
  drawing.text({1, 2}, "up", {.colour = "red", .upwards = true});
  CHECK(drawing.embedded("a & b", "what it shows") ==
        "<svg role=\"img\" class=\"plot\" width=\"10\" height=\"20\" viewBox=\"0 0 10 20\">\n"
        "<title>a &amp; b</title>\n<desc>what it shows</desc>\n"
        "<g class=\"series\" data-name=\"a &quot;b&quot;\">\n"
        "<polyline points=\"0,1 2.5,3\" fill=\"none\" stroke=\"red\" stroke-width=\"1.5\" stroke-dasharray=\"6 3\" "
        "stroke-opacity=\"0.5\"><title>&lt;t&gt;</title></polyline>\n"
        "<polygon points=\"0,1 2.5,3\" fill=\"var(--x)\" fill-opacity=\"0.25\"/>\n"
        "<circle cx=\"1\" cy=\"2\" r=\"3\" fill=\"blue\"/>\n"
        "</g>\n"
        "<text x=\"1\" y=\"2\" font-size=\"12\" text-anchor=\"start\" fill=\"red\" "
        "transform=\"rotate(-90 1 2)\">up</text>\n"
        "</svg>\n");
}

TEST_CASE("text is escaped for XML", "[svg]") {
  CHECK(xml_escaped("<a href=\"x\">'&'</a>") == "&lt;a href=&quot;x&quot;&gt;&apos;&amp;&apos;&lt;/a&gt;");
  CHECK(xml_escaped("one\ntwo\x01") == "one two ");
}

}  // namespace unisono
