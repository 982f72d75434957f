#include "cpu_fixture.hpp"

namespace unisono::kernels::cpu {

TEST_CASE("a squared norm is the exact sum, rounded, on any instruction set and threads, in any order", "[algebra]") {
  for (Index size : {0, 1, 15, 31, 32, 33, 128, 1000, 16384, 100003}) {
    INFO(size);
    Floats x = random_floats(size, 91);
    for (std::size_t i = 0; i < x.size(); i += 7) x[i] = std::ldexp(x[i], -static_cast<int>(i % 90));
    ExactSquares exact;
    exact.add(x);
    everywhere(
        [&](CpuBackend& backend) {
          return Outputs{{}, {backend.squared_norm(x)}};
        },
        [&](const Outputs& outputs) { CHECK(outputs.sums[0] == exact.value()); });
    // The same numbers elsewhere in memory, and the other way round.
    for (std::size_t shift : {1U, 3U, 8U}) {
      Floats moved(shift, 0.0F);
      moved.insert(moved.end(), x.rbegin(), x.rend());
      for (InstructionSet set : available_instruction_sets()) {
        CpuBackend backend({.threads = 2, .instruction_set = set});
        CHECK(backend.squared_norm(View(moved).subspan(shift)) == exact.value());
      }
    }
  }
}

TEST_CASE("a dot product is summed in double, in an order that depends on the size alone", "[algebra]") {
  for (Index size : {0, 1, 31, 32, 33, 1000, 16384, 100003}) {
    INFO(size);
    const Floats x = random_floats(size, 96), y = random_floats(size, 97);
    double expected = 0, magnitude = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double product = static_cast<double>(x[i]) * static_cast<double>(y[i]);
      expected += product;
      magnitude += std::abs(product);
    }
    everywhere(
        [&](CpuBackend& backend) {
          CHECK(backend.dot(x, y) == backend.dot(y, x));
          return Outputs{{}, {backend.dot(x, y)}};
        },
        [&](const Outputs& outputs) {
          // Products of floats are exact in double; n roundings at most on either side.
          CHECK(std::abs(outputs.sums[0] - expected) <= 2 * static_cast<double>(size) * 0x1p-53 * magnitude);
        });
    Floats moved(3, 0.0F);  // the same numbers elsewhere in memory
    moved.insert(moved.end(), x.begin(), x.end());
    CpuBackend backend({.threads = 2});
    CHECK(backend.dot(View(moved).subspan(3), y) == backend.dot(x, y));
  }
}

TEST_CASE("a squared norm is exact also where doubles do not settle how it is rounded", "[algebra]") {
  // 2⁴⁰ + 1 + 2⁻⁶⁰: beside 2⁴⁰ the last term is less than any double shows, but it decides.
  for (const float last : {0.0F, 0x1p-30F}) {
    const Floats x = {1, 0x1p20F, last};
    everywhere(
        [&](CpuBackend& backend) {
          return Outputs{{}, {backend.squared_norm(x)}};
        },
        [&](const Outputs& outputs) { CHECK(outputs.sums[0] == (last == 0 ? 0x1p40 : 0x1p40 + 2)); });
  }
}

TEST_CASE("sums that ranks add up are to within what they promise, or exact", "[algebra]") {
  const Floats x = random_floats(50'000, 92);
  const std::vector<UpdateRange> ranges = {{.first = 0, .last = 20'000}, {.first = 20'000, .last = 50'000}};
  ExactSquares exact;
  exact.add(x);
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 2, .instruction_set = set});
    for (const bool exactly : {false, true}) {
      std::vector<ExactSquares> sums(2);
      backend.sum_squares(x, ranges, exactly, sums);
      sums[0].add(sums[1]);
      if (exactly) CHECK(sums[0].words() == exact.words());
      CHECK(sums[0].settled_value().value_or(exact.value()) == exact.value());
    }
  }
}

TEST_CASE("a squared norm that is infinite, or no number, shows", "[algebra]") {
  for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Floats x = random_floats(1000, 91);
    x[500] = value;
    everywhere(
        [&](CpuBackend& backend) {
          return Outputs{{}, {backend.squared_norm(x)}};
        },
        [&](const Outputs& outputs) { CHECK(std::isnan(outputs.sums[0]) == std::isnan(value)); });
  }
}

TEST_CASE("y ← a x + b y, and with b = 0 y is not read", "[algebra]") {
  for (Index size : {0, 1, 17, 40001}) {
    const Floats x = random_floats(size, 92), y = random_floats(size, 93);
    for (float b : {0.0F, 1.0F, -0.5F}) {
      std::vector<double> expected;
      for (std::size_t i = 0; i < x.size(); ++i) {
        expected.push_back(0.75 * static_cast<double>(x[i]) + static_cast<double>(b) * static_cast<double>(y[i]));
      }
      everywhere(
          [&](CpuBackend& backend) {
            Floats result = b == 0 ? Floats(y.size(), std::nanf("")) : y;
            backend.axpby(0.75F, x, b, result);
            return Outputs{{result}, {}};
          },
          [&](const Outputs& outputs) {
            CHECK(excess(outputs.tensors[0], expected, 3 * kRoundoff) <= 1);  // each term, and the sum, below 2
          });
    }
  }
}

TEST_CASE("y may be x", "[algebra]") {
  const Floats x = random_floats(40001, 94);
  Floats expected = x;
  for (float& value : expected) value *= 0.75F;
  everywhere(
      [&](CpuBackend& backend) {
        Floats scaled = x, doubled = x;
        backend.axpby(0.75F, scaled, 0, scaled);
        backend.axpby(0.5F, doubled, 0.25F, doubled);
        return Outputs{{scaled, doubled}, {}};
      },
      [&](const Outputs& outputs) {
        CHECK(outputs.tensors[0] == expected);
        CHECK(excess(outputs.tensors[1], widen(expected), 3 * kRoundoff) <= 1);
      });
}

TEST_CASE("squared norms of ranges are those of their parts", "[algebra]") {
  const Floats x = random_floats(40016, 95);
  const std::vector<UpdateRange> ranges = {
      {.first = 0, .last = 16}, {.first = 32, .last = 32}, {.first = 32, .last = 40016}, {.first = 0, .last = 40016}};
  everywhere(
      [&](CpuBackend& backend) {
        Outputs outputs{{}, std::vector<double>(ranges.size(), -1)};
        backend.squared_norms(x, ranges, outputs.sums);
        for (std::size_t i = 0; i < ranges.size(); ++i) {
          const auto first = static_cast<std::size_t>(ranges[i].first), last = static_cast<std::size_t>(ranges[i].last);
          CHECK(outputs.sums[i] == backend.squared_norm(View(x).subspan(first, last - first)));
        }
        return outputs;
      },
      [&](const Outputs& outputs) { CHECK(outputs.sums[1] == 0); });
}

TEST_CASE("a cleared vector is zero, whatever it held, and nothing beside it", "[algebra]") {
  for (Index size : {0, 1, 17, 40001}) {
    everywhere(
        [&](CpuBackend& backend) {
          Floats x(static_cast<std::size_t>(size) + 2, std::nanf(""));
          x.front() = x.back() = 7;
          backend.clear(MutableView(x).subspan(1, static_cast<std::size_t>(size)));
          return Outputs{{x}, {}};
        },
        [&](const Outputs& outputs) {
          Floats expected(static_cast<std::size_t>(size) + 2, 0.0F);
          expected.front() = expected.back() = 7;
          CHECK(outputs.tensors[0] == expected);
        });
  }
}

}  // namespace unisono::kernels::cpu
