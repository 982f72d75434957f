// Rows of sequences, a few at a time: the reference's values, and the same bits whatever other rows there are.
#include <numeric>

#include "cpu_fixture.hpp"
#include "reference_sequences.hpp"
#include "unisono/kernels/decode_kernels.hpp"

namespace unisono::kernels::cpu {
namespace {

/// A product of rows, x Wᵀ + b.
struct RowsCase {
  Index rows, in, units;
  bool relu;
  Floats x = random_floats(rows * in, 61), w = random_floats(units * in, 62), b = random_floats(units, 63);

  DenseSpec spec() const {
    return {.in = {in}, .units = units, .activation = relu ? Activation::relu : Activation::none};
  }
};

Outputs multiply(CpuBackend& backend, const RowsCase& c) {
  Floats all(static_cast<std::size_t>(c.rows * c.units)), single(static_cast<std::size_t>(c.units));
  backend.decode_dense(c.spec(), c.rows, c.x, c.w, c.b, all);
  for (Index i = 0; i < c.rows; ++i) {
    backend.decode_dense(c.spec(), 1, View(c.x).subspan(static_cast<std::size_t>(i * c.in)), c.w, c.b, single);
    CHECK(std::equal(single.begin(), single.end(), all.begin() + i * c.units));
  }
  return {{all}, {}};
}

// Each product is below 1 in size, and a sum of `in` of them and a bias has at most in + 5 roundings.
void check_product(const RowsCase& c, const Outputs& outputs) {
  std::vector<double> expected;
  for (Index i = 0; i < c.rows; ++i) {
    for (Index j = 0; j < c.units; ++j) {
      auto sum = static_cast<double>(c.b[static_cast<std::size_t>(j)]);
      for (Index k = 0; k < c.in; ++k) {
        sum += static_cast<double>(c.x[static_cast<std::size_t>(i * c.in + k)]) *
               static_cast<double>(c.w[static_cast<std::size_t>(j * c.in + k)]);
      }
      expected.push_back(c.relu ? std::max(sum, 0.0) : sum);
    }
  }
  const auto in = static_cast<double>(c.in);
  CHECK(excess(outputs.tensors[0], expected, kRoundoff * (in + 5) * (in + 1)) <= 1);
}

/// All rows of some sequences, in one step.
Outputs attend_rows(CpuBackend& backend, const AttentionSpec& spec, Index sequences, View x) {
  std::vector<DecodeRow> rows;
  for (Index b = 0; b < sequences; ++b) {
    for (Index t = 0; t < spec.rows; ++t) rows.push_back({b, t});
  }
  Buffer cache(sequences * cache_size(spec)), other(sequences * cache_size(spec));
  const auto size = static_cast<std::size_t>(spec.out().size()), in = static_cast<std::size_t>(spec.in().size());
  Floats y(rows.size() * size), row(size);
  backend.decode_attention(spec, rows, x, cache.view(), y);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    backend.decode_attention(spec, std::span(rows).subspan(i, 1), x.subspan(i * in, in), other.view(), row);
    CHECK(std::equal(row.begin(), row.end(), y.begin() + static_cast<Index>(i * size)));
  }
  return {{y}, {}};
}

}  // namespace

TEST_CASE("products of rows are those of the reference, and of each row by itself", "[decode]") {
  for (const Index rows : {1, 2, 3, 4, 5, 9}) {
    for (const auto& [in, units] : {std::pair<Index, Index>{1, 1}, {5, 3}, {16, 4}, {40, 7}, {100, 33}}) {
      INFO(rows << " × " << in << " → " << units);
      const RowsCase c{.rows = rows, .in = in, .units = units, .relu = rows % 2 == 0};
      everywhere([&](CpuBackend& backend) { return multiply(backend, c); },
                 [&](const Outputs& outputs) { check_product(c, outputs); });
    }
  }
}

// Values are below 1 in size. A score of D products errs by less than D² roundings and its exponential, which is
// relative to the largest one, by as many and some 8 more; so do means of values, of which T are added up.
TEST_CASE("attention of rows to a cache is the reference's", "[decode]") {
  for (const AttentionSpec& spec : {AttentionSpec{.rows = 5, .heads = 2, .key_heads = 2, .width = 3},
                                    {.rows = 9, .heads = 4, .key_heads = 2, .width = 8, .rotary = 100},
                                    {.rows = 21, .heads = 3, .key_heads = 1, .width = 70, .rotary = 10000}}) {
    constexpr Index kSequences = 2;
    const Floats x = random_floats(kSequences * spec.rows * spec.in().size(), 64);
    std::vector<double> expected;
    for (std::size_t b = 0; b < kSequences; ++b) {
      const auto size = x.size() / kSequences;
      const auto one = reference::Attention(spec, widen(View(x).subspan(b * size, size))).forward();
      expected.insert(expected.end(), one.begin(), one.end());
    }
    const double width = static_cast<double>(spec.width), rows = static_cast<double>(spec.rows);
    everywhere([&](CpuBackend& backend) { return attend_rows(backend, spec, kSequences, x); },
               [&](const Outputs& outputs) {
                 CHECK(excess(outputs.tensors[0], expected, 2 * kRoundoff * (width * width + 8 + rows)) <= 1);
               });
  }
}

TEST_CASE("rows are normalised as by the reference", "[decode]") {
  for (const Index units : {1, 3, 16, 100}) {
    constexpr Index kRows = 3;
    const NormSpec spec{.extent = {units}, .epsilon = 1e-3};
    const Floats x = random_floats(kRows * units, 65), gamma = random_floats(units, 66, 0.5F, 1.5F);
    const auto expected = reference::rms_norm(widen(x), widen(gamma), spec.epsilon);
    everywhere(
        [&](CpuBackend& backend) {
          Floats rms(x.size()), layer(x.size()), shifted(x.size());
          backend.decode_rms_norm(spec, kRows, x, gamma, rms);
          backend.decode_layer_norm(spec, kRows, x, gamma, Floats(gamma.size()), layer);
          backend.decode_layer_norm(spec, kRows, x, gamma, Floats(gamma.size(), 1.0F), shifted);
          for (std::size_t i = 0; i < x.size(); ++i) CHECK(shifted[i] == Approx(layer[i] + 1).margin(1e-5));
          return Outputs{{rms, layer}, {}};
        },
        [&](const Outputs& outputs) {
          // as in rms_norm_test.cpp: 21 roundings of the factor, two of the products
          CHECK(excess(outputs.tensors[0], expected,
                       [&](std::size_t i) { return 23 * kRoundoff * std::abs(expected[i]); }) <= 1);
          // centred rows that are normalised by their mean squares
          std::vector<double> centred = widen(x);
          for (Index row = 0; row < kRows; ++row) {
            const auto begin = centred.begin() + row * units, end = begin + units;
            const double mean = std::accumulate(begin, end, 0.0) / static_cast<double>(units);
            std::for_each(begin, end, [mean](double& value) { value -= mean; });
          }
          const auto layer = reference::rms_norm(centred, widen(gamma), spec.epsilon);
          // The mean errs by up to 8 roundings of values below 1, which the inverse deviation, at most 32, enlarges.
          CHECK(excess(outputs.tensors[1], layer, 1.5 * kRoundoff * 32 * 40) <= 1);
        });
  }
}

}  // namespace unisono::kernels::cpu
