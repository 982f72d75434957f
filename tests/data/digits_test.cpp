#include "unisono/data/import.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <set>

#include "digits/hand.hpp"
#include "sets.hpp"
#include "unisono/base/random.hpp"

using namespace unisono::data;
using unisono::test::TempDir;

namespace {

/// Accuracy of the nearest class mean: a linear classifier that needs no training loop.
double nearest_mean_accuracy(int train, int tested) {
  std::vector<std::vector<double>> mean(10, std::vector<double>(784, 0.0));
  std::vector<int> count(10, 0);
  for (int i = 0; i < train; ++i) {
    const unisono::data::Digit digit = unisono::data::draw_digit(1, static_cast<std::uint64_t>(i));
    ++count[digit.label];
    for (std::size_t p = 0; p < 784; ++p) mean[digit.label][p] += digit.pixels[p];
  }
  for (std::size_t k = 0; k < 10; ++k) {
    for (double& value : mean[k]) value /= count[k];
  }
  int right = 0;
  for (int i = 0; i < tested; ++i) {
    const unisono::data::Digit digit = unisono::data::draw_digit(2, static_cast<std::uint64_t>(i));
    const auto distance = [&](const std::vector<double>& m) {
      double sum = 0;
      for (std::size_t p = 0; p < 784; ++p) sum += (digit.pixels[p] - m[p]) * (digit.pixels[p] - m[p]);
      return sum;
    };
    const auto nearest = std::min_element(mean.begin(), mean.end(),
                                          [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
    right += nearest - mean.begin() == digit.label ? 1 : 0;
  }
  return static_cast<double>(right) / tested;
}

}  // namespace

TEST_CASE("a digit is a function of seed and index", "[digits]") {
  CHECK(unisono::data::draw_digit(3, 17).pixels == unisono::data::draw_digit(3, 17).pixels);
  CHECK(unisono::data::draw_digit(3, 17).pixels != unisono::data::draw_digit(3, 18).pixels);
  CHECK(unisono::data::draw_digit(3, 17).pixels != unisono::data::draw_digit(4, 17).pixels);
}

TEST_CASE("labels are uniform", "[digits]") {
  std::vector<int> count(10, 0);
  const int n = 5000;
  for (int i = 0; i < n; ++i) ++count[unisono::data::draw_digit(1, static_cast<std::uint64_t>(i)).label];
  // χ² with 9 degrees of freedom exceeds 33.7 with probability 1e-4; the digits are fixed, so this passes or not for
  // good.
  double chi2 = 0;
  for (const int c : count) chi2 += (c - n / 10.0) * (c - n / 10.0) / (n / 10.0);
  CHECK(chi2 < 33.7);
}

TEST_CASE("digits lie on the sheet: ink inside, little at the border", "[digits]") {
  double border = 0, inside = 0;
  const int n = 500;
  for (int i = 0; i < n; ++i) {
    const unisono::data::Digit digit = unisono::data::draw_digit(1, static_cast<std::uint64_t>(i));
    for (int y = 0; y < unisono::data::kDigitSide; ++y) {
      for (int x = 0; x < unisono::data::kDigitSide; ++x) {
        const double value = digit.pixels[static_cast<std::size_t>(y * unisono::data::kDigitSide + x)];
        (x == 0 || y == 0 || x == unisono::data::kDigitSide - 1 || y == unisono::data::kDigitSide - 1 ? border
                                                                                                      : inside) +=
            value;
      }
    }
    CHECK(*std::max_element(digit.pixels.begin(), digit.pixels.end()) > 120);
  }
  // The paper's noise, 9 σ cut off at 0, has the mean 9 / √(2π) = 3.6; a border of ink would have more.
  CHECK(border / (n * 108) < 5);
  CHECK(inside / (n * 676) > 20);
}

TEST_CASE("the classes can be told apart by their means, but not too well", "[digits]") {
  const double accuracy = nearest_mean_accuracy(4000, 1000);
  CHECK(accuracy > 0.55);  // chance is 0.10
  CHECK(accuracy < 0.90);
}

TEST_CASE("a stroke's curve runs through its points, straight from corner to corner", "[digits]") {
  const unisono::data::digits::Stroke stroke = {{0, 0}, {1, 0}, {1, 0}, {1, 1}};
  const auto line = unisono::data::digits::trace(stroke, 4);
  REQUIRE(line.size() == 9);
  for (int k = 0; k <= 4; ++k) {
    CHECK(line[static_cast<std::size_t>(k)].y == 0);
    CHECK(line[static_cast<std::size_t>(4 + k)].x == 1);
  }
  CHECK(line[4].x == Approx(1));
  CHECK(line[8].y == Approx(1));
  // On a parabola sampled evenly, Catmull–Rom's tangent at a point is the chord of its neighbours: exact at the middle.
  const auto parabola = unisono::data::digits::trace({{0, 0}, {1, 1}, {2, 4}, {3, 9}}, 2);
  CHECK(parabola[3].x == Approx(1.5));
  CHECK(parabola[3].y == Approx(2.25));
}

TEST_CASE("every digit has several glyphs inside the box", "[digits]") {
  for (int digit = 0; digit < 10; ++digit) {
    CHECK(unisono::data::digits::glyphs_of(digit).size() >= 3);
    for (const auto& glyph : unisono::data::digits::glyphs_of(digit)) {
      for (const auto& stroke : glyph) {
        CHECK(stroke.size() >= 2);
        for (const auto& point : stroke) {
          CHECK((point.x >= 0 && point.x <= 1 && point.y >= 0 && point.y <= 1));
        }
      }
    }
  }
}

TEST_CASE("a pen's line is as wide as the pen", "[digits]") {
  unisono::data::digits::Sheet sheet;
  sheet.draw({{4, 14}, {24, 14}}, 2, 2);
  unisono::RandomStream random(1, unisono::Purpose::test);
  unisono::data::Digit digit;
  sheet.finish(1, 0, random, digit);
  int column = 0;
  for (int y = 0; y < unisono::data::kDigitSide; ++y)
    column += digit.pixels[static_cast<std::size_t>(y * unisono::data::kDigitSide + 14)];
  CHECK(column == 4 * 255);  // from y = 12 to 16, whole pixels
  CHECK(digit.pixels[0] == 0);
}

TEST_CASE("without displacements a distortion leaves points where they are", "[digits]") {
  unisono::RandomStream random(1, unisono::Purpose::test);
  const unisono::data::digits::Distortion none(28, 0, random);
  CHECK(none({3, 25}).x == 3);
  CHECK(none({3, 25}).y == 25);
  const unisono::data::digits::Distortion some(28, 1, random);
  // Smooth: a thousandth of a pixel aside, all moves by at most some thousandths.
  const auto a = some({10, 10}), b = some({10.001F, 10});
  CHECK(std::abs(b.x - a.x - 0.001F) < 0.002F);
}

TEST_CASE("a set of digits has the layout, and its first digits do not depend on its size", "[digits]") {
  const TempDir folder;
  const auto summary = unisono::data::make_digits({.train = 30, .validation = 0, .test = 7}, {.path = folder / "a.h5"});
  CHECK(summary.train == 30);
  CHECK(summary.test == 7);
  unisono::data::make_digits({.train = 20, .validation = 3, .test = 9}, {.path = folder / "b.h5", .compression = 4});
  unisono::data::DataSettings settings;
  settings.path = folder / "a.h5";
  const auto set = unisono::data::open_dataset(settings, 1);
  CHECK(set->info().features == unisono::data::FeatureShape{1, 28, 28});
  CHECK(set->info().classes == 10);
  const unisono::data::hdf5::File a(folder / "a.h5", unisono::data::hdf5::File::Mode::read),
      b(folder / "b.h5", unisono::data::hdf5::File::Mode::read);
  CHECK(b.shape("train/features").compressed);
  std::vector<std::uint8_t> from_a(7 * 784), from_b(7 * 784);
  for (const std::string group : {"train", "test"}) {
    a.read_rows(group + "/features", 0, 7, from_a.data());
    b.read_rows(group + "/features", 0, 7, from_b.data());
    CHECK(from_a == from_b);
  }
  CHECK(a.read<std::uint8_t>("train/labels")[0] == unisono::data::draw_digit(1, 0).label);
  CHECK(a.read<std::uint8_t>("test/features") != std::vector<std::uint8_t>(7 * 784));
}
