#include "cpu/instruction_set.hpp"

#include <bit>
#include <limits>
#include <numeric>

#include "cpu_fixture.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr std::array<Index, 11> kLengths = {1, 15, 16, 17, 63, 64, 100, 256, 257, 1000, 5000};
constexpr EncodingPlace kPlace = {.seed = 7, .step = 3, .sender = 2, .first = 512};

/// A message in memory that is aligned as messages are.
struct Message {
  std::vector<std::uint64_t> words;
  Index length = 0;
  std::span<std::byte> room() { return std::as_writable_bytes(std::span(words)); }
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(words)).first(static_cast<std::size_t>(length));
  }
};

/// What was encoded, what the message says, and the rest that was left.
struct Encoded {
  Message message;
  Floats sent, rest;
};

Encoded encode(Encoder& encoder, const Floats& values, const EncodingPlace& place = kPlace) {
  const auto n = std::ssize(values);
  Encoded result{{}, Floats(values.size(), 0.0F), values};
  const auto room = static_cast<std::size_t>(encoder.most_bytes(n));
  result.message.words.resize(room / 8 + 1);
  result.message.length = encoder.encode(result.rest, place, result.message.room().first(room));
  CHECK(result.message.length <= encoder.most_bytes(n));
  encoder.add(result.message.bytes(), result.sent);
  return result;
}

using Encoders = std::vector<std::pair<std::string, std::unique_ptr<Encoder>>>;

Encoders all_encoders(InstructionSet set) {
  Encoders encoders;
  encoders.emplace_back("bf16", bf16_encoder_for(set));
  encoders.emplace_back("eight_bit", eight_bit_encoder_for(set));
  encoders.emplace_back("one_bit", one_bit_encoder_for(set));
  encoders.emplace_back("threshold", threshold_encoder_for(set, {.threshold = 0.9F}));
  encoders.emplace_back("low threshold", threshold_encoder_for(set, {.threshold = 0.3F}));
  encoders.emplace_back("threshold by density", threshold_encoder_for(set, {.density = 0.05}));
  for (const double density : {0.01, 0.2, 1.0}) encoders.emplace_back("top_k", top_k_encoder_for(set, density));
  return encoders;
}

template <typename Check>
void with_all(const Check& check) {
  for (InstructionSet set : available_instruction_sets()) {
    INFO(loops_for(set).name);
    for (auto& [name, encoder] : all_encoders(set)) {
      INFO(name);
      check(*encoder);
    }
  }
}

bool same_floats(const Floats& a, const Floats& b) { return std::ranges::equal(a, b); }

}  // namespace

TEST_CASE("what a message does not say is left, bit for bit", "[encoders]") {
  with_all([](Encoder& encoder) {
    for (const Index n : kLengths) {
      INFO(n);
      const Floats values = random_floats(n, 1);
      const Encoded encoded = encode(encoder, values);
      Floats expected(values.size());
      std::ranges::transform(values, encoded.sent, expected.begin(), std::minus<>());
      CHECK(same_floats(encoded.rest, expected));
    }
  });
}

TEST_CASE("messages are added to what is in the sum", "[encoders]") {
  with_all([](Encoder& encoder) {
    const Floats before = random_floats(300, 2);
    const Encoded encoded = encode(encoder, random_floats(300, 1));
    Floats sum = before, expected(before.size());
    encoder.add(encoded.message.bytes(), sum);
    std::ranges::transform(before, encoded.sent, expected.begin(), std::plus<>());
    CHECK(same_floats(sum, expected));
  });
}

TEST_CASE("every instruction set makes the same messages", "[encoders]") {
  const auto sets = available_instruction_sets();
  const Encoders reference = all_encoders(sets.front());
  for (InstructionSet set : sets) {
    const Encoders encoders = all_encoders(set);
    for (std::size_t i = 0; i < encoders.size(); ++i) {
      INFO(loops_for(set).name << ", " << encoders[i].first);
      if (encoders[i].first == "one_bit") continue;  // whose means are sums in another order
      const Floats values = random_floats(1000, 3);
      CHECK(std::ranges::equal(encode(*encoders[i].second, values).message.bytes(),
                               encode(*reference[i].second, values).message.bytes()));
    }
  }
}

TEST_CASE("a dense message consists of those of its blocks", "[encoders]") {
  with_all([](Encoder& encoder) {
    if (!encoder.is_dense()) return;
    const Floats values = random_floats(1000, 4);
    const Encoded whole = encode(encoder, values);
    CHECK(whole.message.length == encoder.most_bytes(1000));
    constexpr std::size_t kFirst = 2 * kEncodedBlock;
    EncodingPlace place = kPlace;
    place.first += kFirst;
    const Encoded rest = encode(encoder, Floats(values.begin() + kFirst, values.end()), place);
    CHECK(std::ranges::equal(whole.message.bytes().subspan(static_cast<std::size_t>(encoder.most_bytes(kFirst))),
                             rest.message.bytes()));
  });
}

TEST_CASE("an infinity or a NaN is seen by everybody who adds the message", "[encoders]") {
  with_all([](Encoder& encoder) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      Floats values = random_floats(1000, 5);
      values[333] = bad;
      CHECK_FALSE(std::isfinite(encode(encoder, values).sent[333]));
      std::ranges::fill(values.begin() + 200, values.begin() + 900, bad);  // more than are sent
      const Floats sent = encode(encoder, values).sent;
      CHECK(std::ranges::any_of(sent, [](float value) { return !std::isfinite(value); }));
    }
  });
}

TEST_CASE("bf16 rounds to the nearest, ties to even", "[encoders]") {
  for (InstructionSet set : available_instruction_sets()) {
    const auto encoder = bf16_encoder_for(set);
    // The unit in the last place of a bfloat16 in [1, 2) is 2⁻⁷.
    const Floats values = {1 + 0x1p-8F, 1 + 3 * 0x1p-8F, 1 + 0x1p-8F + 0x1p-20F, -1 - 0x1p-9F, 0, 1e-30F};
    const Encoded encoded = encode(*encoder, values);
    CHECK(encoded.message.length == 12);
    CHECK(encoded.sent[0] == 1);
    CHECK(encoded.sent[1] == 1 + 0x1p-6F);
    CHECK(encoded.sent[2] == 1 + 0x1p-7F);
    CHECK(encoded.sent[3] == -1);
    CHECK(encoded.sent[4] == 0);
    CHECK(std::abs(encoded.sent[5] - 1e-30F) <= 1e-30F * 0x1p-8F);
  }
}

TEST_CASE("eight_bit rounds up or down by the documented random numbers", "[encoders]") {
  for (InstructionSet set : available_instruction_sets()) {
    const auto encoder = eight_bit_encoder_for(set);
    const Floats values = random_floats(kEncodedBlock, 6);
    const Encoded encoded = encode(*encoder, values);
    CHECK(encoded.message.length == 258);
    const float largest = std::abs(*std::ranges::max_element(values, {}, [](float v) { return std::abs(v); }));
    std::uint16_t half = 0;
    std::memcpy(&half, encoded.message.bytes().data(), 2);
    const auto scale = std::bit_cast<float>(std::uint32_t{half} << 16);
    CHECK(scale >= largest / 127);
    CHECK(scale <= largest / 127 * (1 + 0x1p-7F));
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      const std::uint32_t block = 512 / kEncodedBlock;
      const auto words = philox(stream_key(7, Purpose::compression), {block * 32 + i % 32, 2, 3, 0});
      const double u = (words[i / 64] >> (i / 32 % 2 * 16) & 0xFFFF) * 0x1p-16;
      const double code = std::floor(static_cast<double>(values[i] * (1 / scale)) + u);
      const double got = static_cast<double>(encoded.sent[i] / scale);
      // The sum is rounded to multiples of 2⁻¹⁶: the codes may differ where it is so near to a whole number.
      const double sum = static_cast<double>(values[i] * (1 / scale)) + u;
      if (std::abs(sum - std::round(sum)) > 0x1p-15) CHECK(got == code);
    }
  }
}

TEST_CASE("eight_bit errs by nothing on average", "[encoders]") {
  for (InstructionSet set : available_instruction_sets()) {
    const auto encoder = eight_bit_encoder_for(set);
    const Floats values = random_floats(kEncodedBlock, 8);
    constexpr int kTimes = 2000;
    std::vector<double> sums(values.size());
    for (int i = 0; i < kTimes; ++i) {
      const Encoded encoded = encode(*encoder, values, {.seed = 1, .step = static_cast<std::uint64_t>(i)});
      for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += static_cast<double>(encoded.sent[j]);
    }
    // A rounding's variance is at most a quarter of the scale squared (largest at ½): six standard errors of the mean.
    const double scale = 1.0 / 127 * (1 + 0x1p-7), bound = 6 * scale / 2 / std::sqrt(kTimes);
    for (double& sum : sums) sum /= kTimes;
    CHECK(excess(sums, widen(values), bound) <= 1);
  }
}

TEST_CASE("eight_bit leaves values that are too small for a scale", "[encoders]") {
  for (InstructionSet set : available_instruction_sets()) {
    const auto encoder = eight_bit_encoder_for(set);
    const Floats values(100, 1e-38F);
    CHECK(same_floats(encode(*encoder, values).rest, values));
  }
}

TEST_CASE("one_bit says the mean of either sign", "[encoders]") {
  for (InstructionSet set : available_instruction_sets()) {
    const auto encoder = one_bit_encoder_for(set);
    const Floats small = encode(*encoder, {1, -2, 3, -6, 0}).sent;
    CHECK(small == Floats{4.0F / 3, -4, 4.0F / 3, -4, 4.0F / 3});
    CHECK(encoder->most_bytes(256) == 40);
    const Floats values = random_floats(600, 9);
    const Encoded encoded = encode(*encoder, values);
    for (std::size_t first = 0; first < values.size(); first += kEncodedBlock) {
      double sums[2] = {}, counts[2] = {};
      const std::size_t last = std::min(first + kEncodedBlock, values.size());
      for (std::size_t i = first; i < last; ++i) {
        sums[values[i] < 0] += static_cast<double>(values[i]);
        ++counts[values[i] < 0];
      }
      for (std::size_t i = first; i < last; ++i) {
        // Each lane adds up to 16 values below 1 in floats, which err by 2⁻²⁵ of at most 16 each time.
        const double error = static_cast<double>(encoded.sent[i]) - sums[values[i] < 0] / counts[values[i] < 0];
        CHECK(std::abs(error) <= kRoundoff + 64 * 16 * 0x1p-25);
      }
    }
  }
}

TEST_CASE("threshold sends what reaches it, in the shorter form", "[encoders]") {
  for (InstructionSet set : available_instruction_sets()) {
    for (const auto& [tau, is_list] : {std::pair{0.97F, true}, {0.5F, false}}) {
      const auto encoder = threshold_encoder_for(set, {.threshold = tau});
      const Floats values = random_floats(1000, 10);
      const Encoded encoded = encode(*encoder, values);
      Index count = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const bool present = std::abs(values[i]) >= tau;
        count += present;
        CHECK(encoded.sent[i] == (present ? std::copysign(tau, values[i]) : 0.0F));
      }
      CHECK(encoded.message.length == 16 + (is_list ? 4 * count : 2 * 8 * 16));
    }
  }
}

TEST_CASE("values of 0 or plus or minus the threshold are sent exactly", "[encoders]") {
  for (InstructionSet set : available_instruction_sets()) {
    const auto encoder = threshold_encoder_for(set, {.threshold = 0.25F});
    Floats values(777, 0.0F);
    for (std::size_t i = 0; i < values.size(); i += 3) values[i] = i % 2 == 0 ? 0.25F : -0.25F;
    const Encoded encoded = encode(*encoder, values);
    CHECK(same_floats(encoded.sent, values));
    CHECK(same_floats(encoded.rest, Floats(values.size(), 0.0F)));
  }
}

TEST_CASE("a threshold that is chosen by density sends about so many values", "[encoders]") {
  for (InstructionSet set : available_instruction_sets()) {
    const auto encoder = threshold_encoder_for(set, {.density = 0.1});
    // Of so few values all are in the sample: of 2,000 different magnitudes exactly 200 reach the 200th.
    CHECK(encode(*encoder, random_floats(2000, 11)).message.length == 16 + std::min(200 * 4, 16 * 32));
    CHECK(encode(*encoder, Floats(50, 0.0F)).message.length == 16);  // nothing reaches a threshold above 0
    Floats few(100, 0.0F);                                           // fewer than a tenth: their mean magnitude is 1
    few[3] = -1.5F;
    few[90] = 0.5F;
    CHECK(encode(*encoder, few).message.length == 16 + 4);
    CHECK(encode(*encoder, few).sent[3] == -1);
    Floats one(8192, 0.0F);  // and not among the 4,096
    one[1] = 3;
    CHECK(encode(*encoder, one).sent[1] == 3);
  }
}

TEST_CASE("top_k sends the largest magnitudes as they are", "[encoders]") {
  for (InstructionSet set : available_instruction_sets()) {
    for (const double density : {0.003, 0.02, 0.3, 1.0}) {
      for (const Index n : kLengths) {
        const auto encoder = top_k_encoder_for(set, density);
        const Floats values = random_floats(n, 12);
        const Encoded encoded = encode(*encoder, values);
        std::vector<std::size_t> order(values.size());
        std::iota(order.begin(), order.end(), 0U);
        std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return std::abs(values[i]); });
        const auto k = static_cast<std::size_t>(std::ceil(density * static_cast<double>(n)));
        Floats expected(values.size(), 0.0F);
        for (std::size_t i = 0; i < k; ++i) expected[order[i]] = values[order[i]];
        CHECK(same_floats(encoded.sent, expected));
        CHECK(encoded.message.length == encoder->most_bytes(n));
      }
    }
    CHECK(top_k_encoder_for(set, 0.01)->most_bytes(1000) == 16 + 8 * 10);
    CHECK(top_k_encoder_for(set, 0.2)->most_bytes(1000) == 16 + 4 * 200 + 128);
    CHECK(top_k_encoder_for(set, 1)->most_bytes(1000) == 16 + 4000);
  }
}

TEST_CASE("top_k takes the first ones among equals", "[encoders]") {
  for (InstructionSet set : available_instruction_sets()) {
    const auto encoder = top_k_encoder_for(set, 0.03);
    Floats values(100, -0.5F), expected(100, 0.0F);
    values[70] = 2;
    expected[70] = 2;
    expected[0] = expected[1] = -0.5F;
    CHECK(same_floats(encode(*encoder, values).sent, expected));
  }
}

}  // namespace unisono::kernels::cpu
