#include <array>

#include "cpu_fixture.hpp"

// The inner loops of products by themselves, for every instruction set: sizes at and around those of registers and
// tiles, strides larger than the matrices, and nothing written beside them.

namespace unisono::kernels::cpu {
namespace {

constexpr float kUntouched = 1e30F;

/// C of a product in double, by its definition; what the product leaves alone is kUntouched.
std::vector<double> expected_product(const ProductShape& s, const std::vector<Floats>& a, const std::vector<Floats>& b,
                                     const Floats& bias, const Floats& c, bool magnitudes) {
  const auto value = [magnitudes](float x) { return magnitudes ? std::abs(static_cast<double>(x)) : x; };
  std::vector<double> result(c.begin(), c.end());
  for (Count n = 0; n < s.n; ++n) {
    for (Count m = 0; m < s.m; ++m) {
      const auto at = static_cast<std::size_t>(m + n * s.ldc);
      double sum = s.accumulate ? value(c[at]) : 0.0;
      for (std::size_t r = 0; r < a.size(); ++r) {
        for (Count k = 0; k < s.k; ++k) {
          const auto right = static_cast<std::size_t>(s.transposed ? n + k * s.ldb : k + n * s.ldb);
          sum += value(a[r][static_cast<std::size_t>(m + k * s.lda)]) * value(b[r][right]);
        }
      }
      if (!bias.empty()) sum += value(bias[static_cast<std::size_t>(n)]);
      result[at] = s.relu ? std::max(sum, 0.0) : sum;
    }
  }
  return result;
}

void check_product(const ProductShape& s, Count count, bool with_bias) {
  std::vector<Floats> a, b;
  std::vector<const float*> a_pointers, b_pointers;
  for (Count r = 0; r < count; ++r) {
    a.push_back(random_floats(s.lda * s.k, static_cast<std::uint64_t>(2 * r)));
    b.push_back(random_floats(s.ldb * std::max(s.n, s.k), static_cast<std::uint64_t>(2 * r + 1)));
    a_pointers.push_back(a.back().data());
    b_pointers.push_back(b.back().data());
  }
  const Floats bias = random_floats(with_bias ? s.n : 0, 100);
  Floats before(static_cast<std::size_t>(s.ldc * s.n), kUntouched);
  const Floats old = random_floats(s.ldc * s.n, 101);
  for (Count n = 0; n < s.n; ++n) std::copy_n(old.begin() + n * s.ldc, s.m, before.begin() + n * s.ldc);
  const auto expected = expected_product(s, a, b, bias, before, false);
  const auto sizes = expected_product(s, a, b, bias, before, true);
  // n products and n + 1 sums, one rounding each (fused or not), in any order: (n + 2) u Σ |terms|.
  const double roundings = static_cast<double>(s.k * count + 2) * kRoundoff;
  for (InstructionSet set : available_instruction_sets()) {
    INFO(loops_for(set).name << ": " << s.m << " × " << s.n << " × " << s.k << " × " << count);
    Floats c = before;
    Ahead ahead{before.data(), 5, before.data(), 0};
    loops_for(set).product(s, a_pointers.data(), b_pointers.data(), count, with_bias ? bias.data() : nullptr, c.data(),
                           s.m % 2 == 0 ? &ahead : nullptr);
    CHECK(excess(c, expected, [&](std::size_t i) { return roundings * sizes[i]; }) <= 1);
  }
}

}  // namespace

TEST_CASE("products of any size are right and touch nothing else", "[product]") {
  for (Count m : {1, 4, 7, 8, 15, 16, 17, 31, 32, 33, 48, 50, 63, 64, 65, 80, 100, 130}) {
    for (Count n : {1, 2, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 23, 24, 25, 50}) {
      check_product({.m = m, .n = n, .k = 3, .lda = m + 2, .ldb = std::max<Count>(n, 3) + 1, .ldc = m + 3}, 2, false);
    }
  }
}

TEST_CASE("products transpose B, accumulate, add a bias and cut at zero, in every combination", "[product]") {
  for (int options = 0; options < 16; ++options) {
    for (Count m : {5, 16, 64, 70}) {
      const ProductShape shape{.m = m,
                               .n = 13,
                               .k = 20,
                               .lda = m,
                               .ldb = 20,
                               .ldc = m,
                               .transposed = (options & 1) != 0,
                               .accumulate = (options & 2) != 0,
                               .relu = (options & 4) != 0};
      check_product(shape, 3, (options & 8) != 0);
    }
  }
}

TEST_CASE("a product of no pairs is the bias, or zero", "[product]") {
  check_product({.m = 20, .n = 5, .k = 4, .lda = 20, .ldb = 5, .ldc = 20}, 0, true);
  check_product({.m = 20, .n = 5, .k = 4, .lda = 20, .ldb = 5, .ldc = 20}, 0, false);
}

TEST_CASE("products of large matrices give the same bits in parts as at once, and the reference's results",
          "[product]") {
  for (InstructionSet set : available_instruction_sets()) {
    const auto matrix_product = loops_for(set).matrix_product;
    if (matrix_product == nullptr) continue;
    INFO(loops_for(set).name);
    for (int options = 0; options < 32; ++options) {
      for (const auto& [m, n, k] : {std::array<Count, 3>{1, 1, 1}, {16, 50, 300}, {70, 13, 20}, {130, 51, 700}}) {
        INFO(m << " × " << n << " × " << k << ", options " << options);
        const MatrixShape shape{.m = m,
                                .n = n,
                                .k = k,
                                .a = (options & 1) != 0 ? Strides{k + 1, 1} : Strides{1, m + 2},
                                .b = (options & 2) != 0 ? Strides{n + 1, 1} : Strides{1, k + 3},
                                .ldc = m + 2,
                                .accumulate = (options & 4) != 0,
                                .relu = (options & 8) != 0};
        const Floats a = random_floats((m + 2) * (k + 2), 1), b = random_floats((n + 1) * (k + 3), 2);
        const Floats bias = random_floats((options & 16) != 0 ? n : 0, 3), old = random_floats(shape.ldc * n, 4);
        Floats before(old.size(), kUntouched);
        for (Count j = 0; j < n; ++j) std::copy_n(old.begin() + j * shape.ldc, m, before.begin() + j * shape.ldc);
        const float* const biases = bias.empty() ? nullptr : bias.data();
        Floats whole = before, parts = before;
        matrix_product(shape, a.data(), b.data(), biases, whole.data());
        const Count rows = std::max<Count>(1, m / 3), columns = std::max<Count>(1, n / 4);
        for (Count i = 0; i < m; i += rows) {
          for (Count j = 0; j < n; j += columns) {
            MatrixShape part = shape;
            part.m = std::min(rows, m - i);
            part.n = std::min(columns, n - j);
            matrix_product(part, a.data() + i * shape.a.row, b.data() + j * shape.b.column,
                           biases == nullptr ? nullptr : biases + j, parts.data() + j * shape.ldc + i);
          }
        }
        CHECK(whole == parts);
        double worst = 0;  // of the bound of check_product
        for (Count j = 0; j < n; ++j) {
          for (Count i = 0; i < m; ++i) {
            const auto at = static_cast<std::size_t>(i + j * shape.ldc);
            const double first = shape.accumulate ? before[at] : 0,
                         last = bias.empty() ? 0 : bias[static_cast<std::size_t>(j)];
            double sum = first + last, size = std::abs(first) + std::abs(last);
            for (Count l = 0; l < k; ++l) {
              const double term =
                  static_cast<double>(a[static_cast<std::size_t>(i * shape.a.row + l * shape.a.column)]) *
                  b[static_cast<std::size_t>(l * shape.b.row + j * shape.b.column)];
              sum += term;
              size += std::abs(term);
            }
            if (shape.relu) sum = std::max(sum, 0.0);
            worst = std::max(worst, std::abs(whole[at] - sum) / (static_cast<double>(k + 2) * kRoundoff * size));
          }
          for (Count i = m; i < shape.ldc; ++i) CHECK(whole[static_cast<std::size_t>(i + j * shape.ldc)] == kUntouched);
        }
        CHECK(worst <= 1);
      }
    }
  }
}

TEST_CASE("sums along the lanes are right for any number of rows and columns", "[product]") {
  for (Count m : {1, 2, 3, 4, 5, 9}) {
    for (Count n : {1, 2, 4, 5, 6, 7, 12, 13}) {
      for (Count width : {16, 48}) {
        const DotShape s{.m = m, .n = n, .width = width, .ldc = n + 2};
        const Floats a = random_floats(2 * m * width, 1), b = random_floats(2 * n * width, 2);
        const Floats before = random_floats(m * s.ldc, 3);
        std::vector<double> expected(before.begin(), before.end()), sizes(before.size(), 1.0);
        for (Count i = 0; i < m; ++i) {
          for (Count j = 0; j < n; ++j) {
            for (Count lane = 0; lane < 2 * width; ++lane) {
              const Count pair = lane / width, at = lane % width;
              expected[static_cast<std::size_t>(i * s.ldc + j)] +=
                  static_cast<double>(a[static_cast<std::size_t>((pair * m + i) * width + at)]) *
                  static_cast<double>(b[static_cast<std::size_t>((pair * n + j) * width + at)]);
            }
            sizes[static_cast<std::size_t>(i * s.ldc + j)] += static_cast<double>(2 * width);  // all terms ≤ 1
          }
        }
        const float* lefts[] = {a.data(), a.data() + m * width};
        const float* rights[] = {b.data(), b.data() + n * width};
        for (InstructionSet set : available_instruction_sets()) {
          INFO(loops_for(set).name << ": " << m << " × " << n << " × " << width);
          Floats c = before;
          loops_for(set).dots(s, lefts, rights, 2, c.data());
          const double roundings = static_cast<double>(2 * width + 2) * kRoundoff;
          CHECK(excess(c, expected, [&](std::size_t i) { return sizes[i] == 1 ? 1e-300 : roundings * sizes[i]; }) <= 1);
        }
      }
    }
  }
}

TEST_CASE("transposing is exact and touches nothing else", "[product]") {
  for (Count rows : {0, 1, 3, 4, 8, 15, 16, 17, 20, 33, 64}) {
    for (Count columns : {1, 2, 4, 7, 8, 16, 17, 31, 64}) {
      const Count in_stride = columns + 3, out_stride = rows + 5;
      const Floats in = random_floats(std::max<Count>(1, rows * in_stride), 1);
      Floats expected(static_cast<std::size_t>(columns * out_stride), kUntouched);
      for (Count i = 0; i < rows; ++i) {
        for (Count j = 0; j < columns; ++j) {
          expected[static_cast<std::size_t>(j * out_stride + i)] = in[static_cast<std::size_t>(i * in_stride + j)];
        }
      }
      for (InstructionSet set : available_instruction_sets()) {
        INFO(loops_for(set).name << ": " << rows << " × " << columns);
        Floats out(expected.size(), kUntouched);
        loops_for(set).transpose(rows, columns, in.data(), in_stride, out.data(), out_stride);
        CHECK(out == expected);
      }
    }
  }
}

}  // namespace unisono::kernels::cpu
