#include "sobol.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <utility>
#include <vector>

namespace unisono::search {
namespace {

TEST_CASE("the first Sobol points are those of Joe and Kuo's direction numbers", "[search]") {
  // scipy.stats.qmc.Sobol(d, scramble=False), SciPy 1.17
  const std::vector<std::vector<double>> points = {{0, 0, 0, 0, 0, 0, 0, 0},
                                                   {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5},
                                                   {0.75, 0.25, 0.25, 0.25, 0.75, 0.75, 0.25, 0.75},
                                                   {0.25, 0.75, 0.75, 0.75, 0.25, 0.25, 0.75, 0.25},
                                                   {0.375, 0.375, 0.625, 0.875, 0.375, 0.125, 0.375, 0.875},
                                                   {0.875, 0.875, 0.125, 0.375, 0.875, 0.625, 0.875, 0.375},
                                                   {0.625, 0.125, 0.875, 0.625, 0.625, 0.875, 0.125, 0.125},
                                                   {0.125, 0.625, 0.375, 0.125, 0.125, 0.375, 0.625, 0.625}};
  for (std::size_t j = 0; j < 8; ++j) {
    const SobolDimension dimension(j);
    for (std::uint32_t n = 0; n < 8; ++n) CHECK(dimension.at(n) == points[n][j]);
  }
  // Point 999,999 of all dimensions, from the same source: a wrong number in the table would show.
  const std::vector<double> far = {
      0.018662452697753906, 0.8978567123413086,    0.36705875396728516, 0.03543376922607422,  0.8552217483520508,
      0.6153745651245117,   0.7754335403442383,    0.08710575103759766, 0.1519784927368164,   0.7934637069702148,
      0.23989391326904297,  0.47023868560791016,   0.6560297012329102,  0.7911558151245117,   0.23504352569580078,
      0.9426584243774414,   0.5289487838745117,    0.46842288970947266, 0.2257070541381836,   0.6869802474975586,
      0.5010671615600586,   0.04024028778076172,   0.25000858306884766, 0.16923809051513672,  0.6081209182739258,
      0.45148563385009766,  0.6575136184692383,    0.7986326217651367,  0.27805233001708984,  0.35384464263916016,
      0.03529834747314453,  0.6585912704467773,    0.9188013076782227,  0.560612678527832,    0.8880777359008789,
      0.17228031158447266,  0.6776609420776367,    0.2026968002319336,  0.047728538513183594, 0.09734630584716797,
      0.6539716720581055,   0.9771566390991211,    0.4916105270385742,  0.2321481704711914,   0.22391605377197266,
      0.5575361251831055,   0.5541830062866211,    0.36594295501708984, 0.08383655548095703,  0.15633296966552734,
      0.829279899597168,    0.17452335357666016,   0.6522989273071289,  0.6029233932495117,   0.9824705123901367,
      0.1396036148071289,   0.0030088424682617188, 0.5202798843383789,  0.4480447769165039,   0.7704324722290039,
      0.06685161590576172,  0.2523355484008789,    0.3674478530883789,  0.2534341812133789};
  for (std::size_t j = 0; j < kSobolDimensions; ++j) CHECK(SobolDimension(j).at(999'999) == far[j]);
}

TEST_CASE("scrambled or not, every 2^k points lie in all 2^k intervals of each dimension", "[search]") {
  for (std::size_t j = 0; j < kSobolDimensions; ++j) {
    SobolDimension plain(j), scrambled(j);
    scrambled.scramble({7, Purpose::search, j});
    for (const std::uint32_t count : {1U, 2U, 8U, 256U, 1024U}) {
      for (const SobolDimension* dimension : {&plain, &scrambled}) {
        std::set<int> intervals;
        for (std::uint32_t n = 3 * count; n < 4 * count; ++n) {
          intervals.insert(static_cast<int>(dimension->at(n) * count));
        }
        REQUIRE(intervals.size() == count);
      }
    }
  }
}

TEST_CASE("the first two dimensions fill every box of area 2^-8 once, whatever its sides", "[search]") {
  // They are a (0, 2)-sequence, and scrambling keeps that.
  SobolDimension x(0), y(1);
  x.scramble({3, Purpose::search, 0});
  y.scramble({3, Purpose::search, 1});
  for (int k = 0; k <= 8; ++k) {
    std::set<std::pair<int, int>> boxes;
    for (std::uint32_t n = 0; n < 256; ++n) {
      boxes.insert({static_cast<int>(x.at(n) * (1 << k)), static_cast<int>(y.at(n) * (1 << (8 - k)))});
    }
    CHECK(boxes.size() == 256);
  }
}

TEST_CASE("a scrambled point is uniform over the seeds", "[search]") {
  // Point 0 of 4096 seeds in 16 intervals: each has 256 ± 15.5; 6 standard deviations are allowed.
  std::vector<int> counts(16);
  for (std::uint64_t seed = 0; seed < 4096; ++seed) {
    SobolDimension dimension(5);
    dimension.scramble({seed, Purpose::search, 5});
    ++counts[static_cast<std::size_t>(dimension.at(0) * 16)];
  }
  for (const int count : counts) CHECK(std::abs(count - 256) < 93);
}

}  // namespace
}  // namespace unisono::search
