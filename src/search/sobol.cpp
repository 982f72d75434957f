// Quasi-random search: trial b + n, after b baselines, is point n of a scrambled Sobol sequence. For a coordinate with
// the primitive polynomial z^s + a_1 z^{s−1} + … + 1 over {0, 1} and odd m_1, …, m_s, m_j < 2^j,
//     m_j = 2 a_1 m_{j−1} ⊕ 4 a_2 m_{j−2} ⊕ … ⊕ 2^s m_{j−s} ⊕ m_{j−s}
//     v_j = m_j / 2^j                                                       direction numbers
//     x_n = g_1 v_1 ⊕ g_2 v_2 ⊕ …           g = n ⊕ ⌊n/2⌋, the Gray code of n, with the binary digits …g_2 g_1
// Polynomials and m: Joe & Kuo, "Constructing Sobol sequences with better two-dimensional projections", SIAM J. Sci.
// Comput. 2008 (new-joe-kuo-6.21201, © 2008 Frances Y. Kuo and Stephen Joe). Order: Antonov & Saleev 1979. Scrambling
// by a linear matrix and a digital shift: Matoušek, J. Complexity 1998.
#include "sobol.hpp"

#include <fmt/format.h>

#include <bit>

#include "method_kind.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::search {
namespace {

constexpr int kDigits = 32;

struct Directions {
  std::uint32_t polynomial;  ///< its coefficients, the highest first: z³ + z + 1 is binary 1011
  std::array<std::uint32_t, 9> m;
};

// Of the second coordinate and those after it. The first is the van der Corput sequence: all m are 1.
// clang-format off
constexpr Directions kJoeKuo[kSobolDimensions - 1] = {
    {3, {1}}, {7, {1, 3}}, {11, {1, 3, 1}}, {13, {1, 1, 1}}, {19, {1, 1, 3, 3}}, {25, {1, 3, 5, 13}},
    {37, {1, 1, 5, 5, 17}}, {41, {1, 1, 5, 5, 5}}, {47, {1, 1, 7, 11, 19}}, {55, {1, 1, 5, 1, 1}},
    {59, {1, 1, 1, 3, 11}}, {61, {1, 3, 5, 5, 31}}, {67, {1, 3, 3, 9, 7, 49}}, {91, {1, 1, 1, 15, 21, 21}},
    {97, {1, 3, 1, 13, 27, 49}}, {103, {1, 1, 1, 15, 7, 5}}, {109, {1, 3, 1, 15, 13, 25}},
    {115, {1, 1, 5, 5, 19, 61}}, {131, {1, 3, 7, 11, 23, 15, 103}}, {137, {1, 3, 7, 13, 13, 15, 69}},
    {143, {1, 1, 3, 13, 7, 35, 63}}, {145, {1, 3, 5, 9, 1, 25, 53}}, {157, {1, 3, 1, 13, 9, 35, 107}},
    {167, {1, 3, 1, 5, 27, 61, 31}}, {171, {1, 1, 5, 11, 19, 41, 61}}, {185, {1, 3, 5, 3, 3, 13, 69}},
    {191, {1, 1, 7, 13, 1, 19, 1}}, {193, {1, 3, 7, 5, 13, 19, 59}}, {203, {1, 1, 3, 9, 25, 29, 41}},
    {211, {1, 3, 5, 13, 23, 1, 55}}, {213, {1, 3, 7, 3, 13, 59, 17}}, {229, {1, 3, 1, 3, 5, 53, 69}},
    {239, {1, 1, 5, 5, 23, 33, 13}}, {241, {1, 1, 7, 7, 1, 61, 123}}, {247, {1, 1, 7, 9, 13, 61, 49}},
    {253, {1, 3, 3, 5, 3, 55, 33}}, {285, {1, 3, 1, 15, 31, 13, 49, 245}}, {299, {1, 3, 5, 15, 31, 59, 63, 97}},
    {301, {1, 3, 1, 11, 11, 11, 77, 249}}, {333, {1, 3, 1, 11, 27, 43, 71, 9}}, {351, {1, 1, 7, 15, 21, 11, 81, 45}},
    {355, {1, 3, 7, 3, 25, 31, 65, 79}}, {357, {1, 3, 1, 1, 19, 11, 3, 205}}, {361, {1, 1, 5, 9, 19, 21, 29, 157}},
    {369, {1, 3, 7, 11, 1, 33, 89, 185}}, {391, {1, 3, 3, 3, 15, 9, 79, 71}}, {397, {1, 3, 7, 11, 15, 39, 119, 27}},
    {425, {1, 1, 3, 1, 11, 31, 97, 225}}, {451, {1, 1, 1, 3, 23, 43, 57, 177}}, {463, {1, 3, 7, 7, 17, 17, 37, 71}},
    {487, {1, 3, 1, 5, 27, 63, 123, 213}}, {501, {1, 1, 3, 5, 11, 43, 53, 133}},
    {529, {1, 3, 5, 5, 29, 17, 47, 173, 479}}, {539, {1, 3, 3, 11, 3, 1, 109, 9, 69}},
    {545, {1, 1, 1, 5, 17, 39, 23, 5, 343}}, {557, {1, 3, 1, 5, 25, 15, 31, 103, 499}},
    {563, {1, 1, 1, 11, 11, 17, 63, 105, 183}}, {601, {1, 1, 5, 11, 9, 29, 97, 231, 363}},
    {607, {1, 1, 5, 15, 19, 45, 41, 7, 383}}, {617, {1, 3, 7, 7, 31, 19, 83, 137, 221}},
    {623, {1, 1, 1, 3, 23, 15, 111, 223, 83}}, {631, {1, 1, 5, 13, 31, 15, 55, 25, 161}},
    {637, {1, 1, 3, 13, 25, 47, 39, 87, 257}}};
// clang-format on

std::unique_ptr<SearchMethod> make_sobol(SearchProblem problem) {
  const std::size_t dimensions = problem.space.parameters().size();
  if (dimensions > kSobolDimensions) {
    throw ConfigError(
        fmt::format("search.method = \"sobol\" draws at most {} values, but [search.space] has {}: vary "
                    "fewer keys, or use method = \"random\"",
                    kSobolDimensions, dimensions));
  }
  std::vector<SobolDimension> sequence;
  for (std::size_t j = 0; j < dimensions; ++j) {
    sequence.emplace_back(j);
    sequence.back().scramble(search_stream(problem, Draw::scrambling, j));
  }
  return std::make_unique<FixedTrials>(
      problem, problem.settings.trials, [problem, sequence = std::move(sequence)](std::int64_t trial) {
        if (problem.is_baseline(trial)) return problem.baselines[static_cast<std::size_t>(trial)];
        Point point;
        for (const SobolDimension& dimension : sequence) {
          point.push_back(dimension.at(static_cast<std::uint32_t>(trial - problem.first_drawn())));
        }
        return point;
      });
}

void describe_sobol(ConfigVisitor& visitor, SearchSettings& settings) {
  describe_trials(visitor, settings);
  describe_median_rule(visitor, settings);
}

}  // namespace

SobolDimension::SobolDimension(std::size_t dimension) {
  std::array<std::uint32_t, kDigits> m{};
  if (dimension == 0) {
    m.fill(1);
  } else {
    const auto& [polynomial, first] = kJoeKuo[dimension - 1];
    const int degree = std::bit_width(polynomial) - 1;
    for (int j = 0; j < kDigits; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (j < degree) {
        m[at] = first[at];
        continue;
      }
      m[at] = m[at - static_cast<std::size_t>(degree)];
      for (int i = 1; i <= degree; ++i) {
        const bool coefficient = ((polynomial >> (degree - i)) & 1U) != 0;
        if (coefficient) m[at] ^= m[at - static_cast<std::size_t>(i)] << i;
      }
    }
  }
  for (std::size_t j = 0; j < kDigits; ++j) directions_[j] = m[j] << (kDigits - 1 - j);
}

void SobolDimension::scramble(RandomStream random) {
  std::array<std::uint32_t, kDigits> rows{};  // row i: which digits add up to digit i
  for (std::size_t i = 0; i < kDigits; ++i) {
    const std::uint32_t diagonal = 1U << (kDigits - 1 - i), before = ~(diagonal | (diagonal - 1));
    rows[i] = diagonal | (random.bits() & before);
  }
  for (std::uint32_t& direction : directions_) {
    std::uint32_t scrambled = 0;
    for (const std::uint32_t row : rows) scrambled = (scrambled << 1) | (std::popcount(row & direction) & 1U);
    direction = scrambled;
  }
  shift_ = random.bits();
}

double SobolDimension::at(std::uint32_t n) const {
  std::uint32_t digits = shift_;
  const std::uint32_t gray = n ^ (n >> 1);
  for (std::size_t j = 0; j < kDigits; ++j) {
    if (((gray >> j) & 1U) != 0) digits ^= directions_[j];
  }
  return digits * 0x1p-32;
}

SearchMethodKind sobol_search() { return {SearchKind::sobol, describe_sobol, make_sobol}; }

}  // namespace unisono::search
