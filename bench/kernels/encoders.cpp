// Encoders of gradients on one core: bytes of floats per second that are encoded, with what is not sent left behind,
// and that are added from a message. Values are normal; "cached" has a bucket of 256 KiB, "far" has 64 MiB.
#include <memory>
#include <vector>

#include "harness.hpp"
#include "unisono/base/random.hpp"
#include "unisono/kernels/encoders.hpp"

namespace unisono::bench {
namespace {

using MakeEncoder = std::function<std::unique_ptr<kernels::Encoder>()>;

std::vector<float> normal_values(Index n) {
  RandomStream random(1, Purpose::test, 0);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = random.normal();
  return values;
}

void count_floats(benchmark::State& state, Index n) {
  state.SetBytesProcessed(state.iterations() * n * static_cast<std::int64_t>(sizeof(float)));
}

/// What is left over is added to fresh values each time, as in training: this reads and writes them once more.
void encode(benchmark::State& state, const MakeEncoder& make, Index n) {
  const auto encoder = make();
  const std::vector<float> gradient = normal_values(n);
  std::vector<float> rest(gradient.size());
  std::vector<std::byte> message(static_cast<std::size_t>(encoder->most_bytes(n)));
  std::uint64_t step = 0;
  for (auto _ : state) {
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] += gradient[i];
    benchmark::DoNotOptimize(encoder->encode(rest, {.seed = 1, .step = ++step}, message));
  }
  count_floats(state, n);
}

void add(benchmark::State& state, const MakeEncoder& make, Index n) {
  const auto encoder = make();
  std::vector<float> values = normal_values(n), sum(values.size());
  std::vector<std::byte> message(static_cast<std::size_t>(encoder->most_bytes(n)));
  const auto bytes = static_cast<std::size_t>(encoder->encode(values, {.seed = 1}, message));
  for (auto _ : state) {
    encoder->add(std::span(message).first(bytes), sum);
    benchmark::DoNotOptimize(sum.data());
  }
  count_floats(state, n);
}

const bool kRegistered = [] {
  const std::pair<std::string, MakeEncoder> encoders[] = {
      {"bf16", kernels::make_bf16_encoder},
      {"eight_bit", kernels::make_eight_bit_encoder},
      {"one_bit", kernels::make_one_bit_encoder},
      {"threshold_3", [] { return kernels::make_threshold_encoder({.threshold = 3}); }},
      {"threshold_1%", [] { return kernels::make_threshold_encoder({.density = 0.01}); }},
      {"top_k_1%", [] { return kernels::make_top_k_encoder(0.01); }}};
  for (const auto& [name, make] : encoders) {
    for (const auto& [size, n] : {std::pair{"cached", Index{1} << 16}, {"far", Index{1} << 24}}) {
      benchmark::RegisterBenchmark(("encode/" + name + "/" + size).c_str(), encode, make, n);
      benchmark::RegisterBenchmark(("add_encoded/" + name + "/" + size).c_str(), add, make, n);
    }
  }
  return true;
}();

}  // namespace
}  // namespace unisono::bench
