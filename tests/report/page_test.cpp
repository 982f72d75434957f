#include "page.hpp"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "sections.hpp"
#include "watch.hpp"

namespace unisono::report {
namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("text is escaped wherever it stands", "[report]") {
  CHECK(Html("<b>&\"'\n\x01").str() == "&lt;b&gt;&amp;&quot;&#39;\n ");
  CHECK(element("p", {{"title", "\"><script>"}}, "x < y").str() ==
        "<p title=\"&quot;&gt;&lt;script&gt;\">x &lt; y</p>\n");
  Html both = element("b", "1");
  both += "<2>";
  CHECK(element("p", both).str() == "<p><b>1</b>\n&lt;2&gt;</p>\n");
}

TEST_CASE("every kind of block is escaped", "[report]") {
  const std::string evil = "<script>alert(1)</script>";
  Page page{.title = evil, .subtitle = evil};
  page.add({.title = evil,
            .blocks = {Paragraph{evil}, Table{.caption = evil, .head = {evil, evil}, .rows = {{evil, evil}}},
                       Drawing{.title = evil, .svg = "<svg></svg>"},
                       Pictures{{{.png = "png", .meaning = evil, .lines = {evil}}}},
                       Folded{.summary = evil, .text = evil}}});
  page.add({.title = "empty"});
  const std::string html = to_html(page);
  CHECK(html.starts_with(kPageBegin));
  CHECK_FALSE(holds(html, evil));
  CHECK(holds(html, "<svg></svg>"));
  CHECK(holds(html, "<td>&lt;script&gt;"));
  CHECK(holds(html, "src=\"data:image/png;base64,cG5n\""));
  CHECK_FALSE(holds(html, "empty"));
}

TEST_CASE("base64 of RFC 4648", "[report]") {
  CHECK(base64("").empty());
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(base64("\xff\xfe\xfd") == "//79");
}

TEST_CASE("a PNG file has its size and its pixels", "[report]") {
  const std::vector<std::uint8_t> pixels = {0, 128, 255, 1, 2, 3};
  const std::string png = png_of(3, 2, 1, pixels);
  CHECK(png.starts_with("\x89PNG\r\n\x1a\n"));
  CHECK(png.substr(16, 13) == std::string("\0\0\0\3\0\0\0\2\10\0\0\0\0", 13));
  const auto at = png.find("IDAT");
  std::string lines(8, '\0');
  uLongf size = lines.size();
  CHECK(uncompress(reinterpret_cast<Bytef*>(lines.data()), &size, reinterpret_cast<const Bytef*>(png.data() + at + 4),
                   png.size() - at - 4) == Z_OK);
  CHECK(lines == std::string("\0\0\x80\xff\0\1\2\3", 8));
}

TEST_CASE("keys that make no difference are defaults", "[report]") {
  const ConfigText text{.path = "a.toml",
                        .text =
                            "name = \"a\"\n[data]\npath = \"a.h5\"\n[model]\nkind = \"linear\"\n[optimizer]\n"
                            "learning_rate = 0.5\n[train]\nbatch_size = 8\nepochs = 10\n",
                        .overrides = {}};
  std::vector<std::string> keys;
  for (const auto& [key, value] : chosen_keys(settings::effective_config(settings::parse_config(text)), {}))
    keys.push_back(key);
  CHECK(std::find(keys.begin(), keys.end(), "optimizer.learning_rate") != keys.end());
  CHECK(std::find(keys.begin(), keys.end(), "train.batch_size") != keys.end());
  CHECK(std::find(keys.begin(), keys.end(), "name") != keys.end());          // required
  CHECK(std::find(keys.begin(), keys.end(), "train.epochs") == keys.end());  // given as the default
  CHECK(std::find(keys.begin(), keys.end(), "strategy.kind") == keys.end());
  CHECK(keys.size() < 10);
  CHECK(chosen_keys("unknown = 1\n", {}) == std::vector<std::pair<std::string, std::string>>{{"unknown", "1"}});
}

TEST_CASE("a sparkline has the height of its last values", "[report]") {
  CHECK(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8) == "▁▂▃▄▅▆▇█");
  CHECK(sparkline({3, 2, 1, 0}, 2) == "▆▁");  // of each part its last
  CHECK(sparkline({1, NAN, 2}, 8) == "▁ █");
  CHECK(sparkline({5, 5}, 8) == "▁▁");
  CHECK(sparkline({5}, 8).empty());
  CHECK(sparkline({NAN, NAN}, 8).empty());
}

TEST_CASE("the time left is that of the last reports' speed", "[report]") {
  RunHistory run;
  run.record.config["train.epochs"] = "4";
  run.record.steps = 60;
  run.steps_per_epoch = 25;
  CHECK(planned_steps(run) == 100);
  CHECK(seconds_left(run) < 0);  // no reports yet
  for (const double step : {10, 20, 30, 40, 50, 60}) {
    run.curves["train seconds.total"].steps.push_back(step);
    run.curves["train seconds.total"].values.push_back(step == 10 ? 1000 : 2);  // the first took long
  }
  CHECK(seconds_left(run) == Approx(40 * 0.2));
}

}  // namespace unisono::report
