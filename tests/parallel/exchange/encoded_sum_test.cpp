#include "unisono/parallel/compressed_sum.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <vector>

#include "expect.hpp"
#include "unisono/base/random.hpp"

namespace unisono::parallel {
namespace {

using Floats = std::vector<float>;

Floats values_of(int rank, Index n, std::uint32_t time = 0) {
  RandomStream random(3, Purpose::test, static_cast<std::uint64_t>(rank), time);
  Floats values(static_cast<std::size_t>(n));
  for (float& value : values) value = random.uniform(-1, 1);
  return values;
}

std::unique_ptr<EncodedSum> make_sum(comm::Communicator& ranks, const kernels::Encoder& encoder) {
  return encoder.is_dense() ? make_sliced_sum(ranks) : make_gathered_sum(ranks);
}

using MakeEncoder = std::function<std::unique_ptr<kernels::Encoder>()>;

const std::vector<std::pair<std::string, MakeEncoder>> kEncoders = {
    {"bf16", [] { return kernels::make_bf16_encoder(); }},
    {"eight_bit", [] { return kernels::make_eight_bit_encoder(); }},
    {"one_bit", [] { return kernels::make_one_bit_encoder(); }},
    {"threshold", [] { return kernels::make_threshold_encoder({.threshold = 0.8F}); }},
    {"adapted threshold", [] { return kernels::make_threshold_encoder({.density = 0.1}); }},
    {"top_k", [] { return kernels::make_top_k_encoder(0.05); }}};

}  // namespace

TEST_CASE("sums of messages and what is left add up to what the ranks had, and all ranks get the same bits",
          "[long][encoded_sum]") {
  for (const auto& [name, make] : kEncoders) {
    for (const int ranks : {1, 2, 3, 5}) {
      for (const Index n : {1, 200, 256, 1500}) {
        INFO(name << ", " << ranks << " ranks, " << n << " values");
        std::vector<Floats> sums(static_cast<std::size_t>(ranks)), left(sums.size());
        comm::run_as_threads(ranks, [&, &make = make](comm::Communicator& communicator) {
          const auto own = static_cast<std::size_t>(communicator.rank());
          const auto encoder = make();
          const auto exchange = make_sum(communicator, *encoder);
          left[own] = values_of(communicator.rank(), n);
          sums[own] = Floats(left[own].size());
          exchange->sum(*encoder, left[own], sums[own], {});
        });
        for (const Floats& sum : sums) CHECK(std::ranges::equal(sum, sums[0]));
        double worst = 0;
        for (std::size_t i = 0; i < sums[0].size(); ++i) {
          double error = static_cast<double>(sums[0][i]), magnitudes = std::abs(error);
          for (int rank = 0; rank < ranks; ++rank) {
            const Floats before = values_of(rank, n);
            const auto r = static_cast<std::size_t>(rank);
            error += static_cast<double>(left[r][i]) - static_cast<double>(before[i]);
            magnitudes += static_cast<double>(std::abs(left[r][i])) + static_cast<double>(std::abs(before[i]));
          }
          // Each rank's rest is rounded once, and so is each addition to the sum, the rests of the owner included.
          worst = std::max(worst, std::abs(error) / ((2 * ranks + 2) * 0x1p-24 * magnitudes));
        }
        CHECK(worst <= 1);
      }
    }
  }
}

TEST_CASE("values that are sent exactly have the sum of an allreduce, bit for bit", "[encoded_sum]") {
  for (const bool by_threshold : {false, true}) {
    for (const int ranks : {1, 2, 3, 4, 5}) {
      comm::run_as_threads(ranks, [&](comm::Communicator& communicator) {
        const auto encoder =
            by_threshold ? kernels::make_threshold_encoder({.threshold = 0.25F}) : kernels::make_top_k_encoder(1);
        Floats values = values_of(communicator.rank(), 700);
        if (by_threshold) {
          for (float& value : values) value = value > 0.5F ? 0.25F : value < -0.5F ? -0.25F : 0.0F;
        }
        Floats plain = values, sum(values.size());
        communicator.allreduce_sum(std::span(plain));
        make_sum(communicator, *encoder)->sum(*encoder, values, sum, {});
        EXPECT(std::ranges::equal(sum, plain));
        EXPECT(std::ranges::all_of(values, [](float value) { return value == 0; }));
      });
    }
  }
}

TEST_CASE("the bytes that ranks send are those of the formulas", "[encoded_sum]") {
  constexpr Index n = 256 * 12;
  comm::run_as_threads(3, [](comm::Communicator& communicator) {
    const auto sent = [&](const MakeEncoder& make) {
      const auto encoder = make();
      const auto exchange = make_sum(communicator, *encoder);
      Floats values = values_of(communicator.rank(), n), sum(values.size());
      exchange->sum(*encoder, values, sum, {});
      return exchange->sent_bytes();
    };
    EXPECT(sent(kEncoders[0].second) == 2 * 2 * 2 * n / 3);
    EXPECT(sent(kEncoders[1].second) == 2 * 2 * 258 * 12 / 3);
    EXPECT(sent(kEncoders[2].second) == 2 * 2 * 40 * 12 / 3);
    EXPECT(sent([] { return kernels::make_top_k_encoder(0.01); }) == 2 * (8 + 16 + 8 * 31));  // k = ⌈30.72⌉
  });
}

TEST_CASE("a NaN of one rank is seen by all", "[encoded_sum]") {
  for (const auto& [name, make] : kEncoders) {
    INFO(name);
    std::vector<char> seen(3);
    comm::run_as_threads(3, [&, &make = make](comm::Communicator& communicator) {
      const auto encoder = make();
      Floats values = values_of(communicator.rank(), 600), sum(values.size());
      if (communicator.rank() == 1) values[77] = std::nanf("");
      make_sum(communicator, *encoder)->sum(*encoder, values, sum, {});
      seen[static_cast<std::size_t>(communicator.rank())] = std::isfinite(sum[77]) ? 0 : 1;
    });
    CHECK(seen == std::vector<char>(3, 1));
  }
}

}  // namespace unisono::parallel
