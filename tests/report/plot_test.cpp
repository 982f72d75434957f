#include <catch2/catch.hpp>
#include <cmath>

#include "plot/frame.hpp"
#include "plot/plots.hpp"

namespace unisono::report::plot {
namespace {

Scale scale_of(std::vector<double> values, Spacing spacing, Scale::Ends ends) {
  Span span(spacing);
  span.add(values);
  Axis axis;
  axis.spacing = spacing;
  return {axis, span, ends, 100, 300};
}

std::vector<std::string> texts_of(const Scale& scale) {
  std::vector<std::string> texts;
  for (const auto& tick : scale.ticks()) texts.push_back(tick.text);
  return texts;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("ticks are 1, 2 or 5 times powers of ten", "[plot]") {
  CHECK(texts_of(scale_of({0, 5}, Spacing::linear, Scale::Ends::values)) == Texts{"0", "1", "2", "3", "4", "5"});
  CHECK(texts_of(scale_of({0.13, 0.92}, Spacing::linear, Scale::Ends::ticks)) ==
        Texts{"0", "0.2", "0.4", "0.6", "0.8", "1"});
  CHECK(texts_of(scale_of({-30000, 40000}, Spacing::linear, Scale::Ends::ticks)) ==
        Texts{"-30,000", "-20,000", "-10,000", "0", "10,000", "20,000", "30,000", "40,000"});
  CHECK(texts_of(scale_of({0.02, 3}, Spacing::logarithmic, Scale::Ends::ticks)) ==
        Texts{"0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5"});
  CHECK(texts_of(scale_of({1e-6, 1e3}, Spacing::logarithmic, Scale::Ends::ticks)).size() <= 8);
}

TEST_CASE("axes end at values or at ticks, and hold all values", "[plot]") {
  const Scale exact = scale_of({0.3, 4.7}, Spacing::linear, Scale::Ends::values);
  CHECK(exact.minimum() == 0.3);
  CHECK(exact.maximum() == 4.7);
  for (const Spacing spacing : {Spacing::linear, Spacing::logarithmic}) {
    for (const double factor : {1e-9, 0.37, 1.0, 12345.0}) {
      const Scale scale = scale_of({1.3 * factor, 8.9 * factor}, spacing, Scale::Ends::ticks);
      CHECK(scale.minimum() <= 1.3 * factor);
      CHECK(scale.maximum() >= 8.9 * factor);
      CHECK(scale.minimum() > 0.09 * factor * (spacing == Spacing::linear ? 0 : 1) - 1e-12);
      CHECK(scale.ticks().size() >= 2);
      CHECK(scale(scale.minimum()) == Approx(100));
      CHECK(scale(scale.maximum()) == Approx(300));
    }
  }
}

TEST_CASE("a logarithmic axis has equal distances for equal factors", "[plot]") {
  const Scale scale = scale_of({0.01, 100}, Spacing::logarithmic, Scale::Ends::ticks);
  CHECK(scale(0.1) - scale(0.01) == Approx(50));
  CHECK(scale(10) - scale(1) == Approx(50));
  CHECK_FALSE(scale.shows(0));
  CHECK_FALSE(scale.shows(-1));
}

TEST_CASE("values without a range, or without values, still make an axis", "[plot]") {
  for (const Spacing spacing : {Spacing::linear, Spacing::logarithmic}) {
    const Scale one = scale_of({7}, spacing, Scale::Ends::ticks);
    CHECK(one.minimum() < 7);
    CHECK(one.maximum() > 7);
    const Scale none = scale_of({NAN, INFINITY}, spacing, Scale::Ends::ticks);
    CHECK(none.maximum() > none.minimum());
    CHECK(std::isfinite(none(1)));
  }
  CHECK(scale_of({0, 0}, Spacing::linear, Scale::Ends::ticks).minimum() < 0);
}

TEST_CASE("choices have a tick each", "[plot]") {
  Axis axis;
  axis.choices = {"sgd", "adam"};
  axis.spacing = Spacing::logarithmic;  // no number of a choice is its logarithm
  const Scale scale(axis, Span(), Scale::Ends::ticks, 0, 200);
  CHECK(texts_of(scale) == Texts{"sgd", "adam"});
  CHECK(scale(0) == Approx(50));
  CHECK(scale(1) == Approx(150));
}

TEST_CASE("numbers as people read them", "[plot]") {
  CHECK(number_text(20000) == "20,000");
  CHECK(number_text(-0.0) == "0");
  CHECK(number_text(0.25) == "0.25");
  CHECK(number_text(1e-6) == "1e-06");
  CHECK(number_text(NAN) == "–");
  CHECK(number_text(3e9) == "3e+09");
}

TEST_CASE("a curve is a line through its points; values that are not finite interrupt it", "[plot]") {
  XyPlot plot;
  plot.caption = {.title = "a < b", .description = "d"};
  plot.series.push_back({.name = "s", .x = {0, 1, 2, 3, 4}, .y = {1, 2, NAN, 3, 4}});
  const std::string svg = svg_of(plot);
  CHECK(count(svg, "stroke-width=\"1.8\"") == 2);
  CHECK(count(svg, "<circle") == 4);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("<title>a &lt; b</title>") != std::string::npos);
  CHECK(svg.find("data-minimum=\"0\" data-maximum=\"4\"") != std::string::npos);

  plot.series.front().low = {0, 1, 2, 2, 3};
  plot.series.front().high = {2, 3, 4, 4, 6};
  const std::string banded = svg_of(plot);
  CHECK(count(banded, "<polygon") == 1);
  CHECK(banded.find("data-minimum=\"0\" data-maximum=\"6\"") != std::string::npos);  // y holds the band
}

TEST_CASE("long series are thinned and keep their extremes", "[plot]") {
  Series series{.name = "", .x = {}, .y = {}};
  for (int i = 0; i < 100'000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i == 34'567 ? 50 : i == 77'001 ? -50 : i % 1000 == 0 ? NAN : std::sin(i));
  }
  const Series fewer = thinned(series, 900);
  CHECK(fewer.x.size() <= 910);
  CHECK(fewer.x.size() > 600);
  CHECK(fewer.x.front() == 0);
  CHECK(fewer.x.back() == 99'999);
  CHECK(std::is_sorted(fewer.x.begin(), fewer.x.end()));
  CHECK(std::count(fewer.y.begin(), fewer.y.end(), 50) == 1);
  CHECK(std::count(fewer.y.begin(), fewer.y.end(), -50) == 1);
  CHECK(thinned(fewer, 1000).x.size() == fewer.x.size());
}

TEST_CASE("bars are as long as their values, one after the other", "[plot]") {
  BarPlot plot;
  plot.rows = {"first", "second"};
  plot.series = {{.name = "a", .values = {1, 2}}, {.name = "b", .values = {3, 0}}};
  const std::string svg = svg_of(plot);
  CHECK(svg.find("<title>first, a: 1</title>") != std::string::npos);
  CHECK(svg.find("<title>first, b: 3</title>") != std::string::npos);
  CHECK(svg.find("second, b") == std::string::npos);  // nothing to draw
  CHECK(svg.find("data-minimum=\"0\" data-maximum=\"4\"") != std::string::npos);
}

TEST_CASE("intervals, their margin and reference are inside of the axis", "[plot]") {
  IntervalPlot plot;
  plot.intervals = {{.row = "a", .value = 0.1, .low = -0.2, .high = 0.4},
                    {.row = "b", .value = 1, .low = 0.9, .high = 1.1}};
  plot.margin = Range{-0.3, 0.3};
  plot.reference = 0;
  const std::string svg = svg_of(plot);
  CHECK(count(svg, "<circle") == 2);
  CHECK(svg.find("<title>-0.3 to 0.3</title>") != std::string::npos);
  CHECK(svg.find("data-minimum=\"-0.4\" data-maximum=\"1.2\"") != std::string::npos);
}

TEST_CASE("a matrix has a cell for each number", "[plot]") {
  MatrixPlot plot;
  plot.rows = plot.columns = {"cat", "<dog>"};
  plot.values = {5, 1, 0, 7};
  const std::string svg = svg_of(plot);
  CHECK(count(svg, "fill=\"var(--series-1)\"") == 4);
  CHECK(svg.find("&lt;dog&gt;") != std::string::npos);
  CHECK(svg.find("<dog>") == std::string::npos);
  CHECK(svg.find(" cat,  &lt;dog&gt;: 1") != std::string::npos);
}

TEST_CASE("lines of parallel coordinates pass each axis; the best one is drawn last", "[plot]") {
  ParallelPlot plot;
  plot.axes = {{.label = "rate", .spacing = Spacing::logarithmic}, {.label = "kind", .choices = {"sgd", "adam"}}};
  plot.lines = {{.values = {0.1, 0}, .merit = 1, .title = "best"},
                {.values = {0.001, 1}, .merit = 0, .title = "worst"},
                {.values = {NAN, 1}, .merit = 0.5, .title = "without rate"}};
  const std::string svg = svg_of(plot);
  CHECK(svg.find("worst") < svg.find("without rate"));
  CHECK(svg.find("without rate") < svg.find("best"));
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("data-name=\"rate\" data-minimum=\"0.001\" data-maximum=\"0.1\"") != std::string::npos);
  CHECK(svg.find(">adam</text>") != std::string::npos);
  CHECK(svg.find("best") < svg.find(">adam</text>"));  // labels lie above the lines
}

TEST_CASE("a line of parallel coordinates has a gap where its trial has no value", "[plot]") {
  ParallelPlot plot;
  plot.axes = {{.label = "a"}, {.label = "b"}, {.label = "c"}, {.label = "d"}};
  plot.lines = {{.values = {1, NAN, 1, 2}, .title = "interrupted"}, {.values = {2, 1, 2, 1}, .title = "whole"}};
  const std::string svg = svg_of(plot);
  CHECK(count(svg, "<title>interrupted</title>") == 2);  // a stub at the first axis, and a line between the last two
  CHECK(count(svg, "<title>whole</title>") == 1);
}

TEST_CASE("a timeline has a block for each piece of work", "[plot]") {
  Timeline timeline;
  timeline.rows = {"rank 0", "rank 1"};
  timeline.kinds = {"forward", "backward"};
  timeline.blocks = {{.row = 0, .start = 0, .end = 2, .colour = 0, .text = "1", .title = "forward 1"},
                     {.row = 1,
                      .start = 2,
                      .end = 3,
                      .colour = 1,
                      .text = "too long a text for a block that takes a third of the width of the whole drawing"}};
  const std::string svg = svg_of(timeline);
  CHECK(svg.find("<title>forward 1</title>") != std::string::npos);
  CHECK(svg.find("too long") == std::string::npos);
  CHECK(svg.find("data-minimum=\"0\" data-maximum=\"3\"") != std::string::npos);
}

TEST_CASE("names are shortened between characters", "[plot]") {
  CHECK(shortened("short", 100) == "short");
  CHECK(shortened("ééééééééé", 43.2) == "éé…");
  CHECK(shortened("elastic_averaging, batches of 64, 2 × 1", 220) == "elastic_averaging, b…4, 2 × 1");
}

}  // namespace unisono::report::plot
