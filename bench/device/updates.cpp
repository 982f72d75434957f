// A GPU's update rules, which its memory binds, beside what its memory does in a copy.
//   bench_device_updates [--floats 67108864]
// Bytes a parameter: those of g, θ and the rule's vectors that are read, and of what is written of these.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <iostream>
#include <string_view>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/median.hpp"
#include "unisono/kernels/cuda.hpp"

namespace unisono {
namespace {

constexpr int kRounds = 7;
constexpr double kRoundSeconds = 0.1;

struct Rule {
  const char* name;
  double bytes;  ///< a parameter
  std::function<void()> update;
};

/// Of one update. Launches that are under way at the same time hide each other's start.
double seconds_of(kernels::Backend& backend, const Rule& rule) {
  const auto run = [&](int times) {
    const Stopwatch watch;
    for (int i = 0; i < times; ++i) {
      rule.update();
      backend.submit();
    }
    backend.device()->synchronise();
    return watch.seconds() / times;
  };
  run(6);  // recorded by now, in both of the queue's areas
  const int times = std::max(1, static_cast<int>(kRoundSeconds / run(1)));
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) seconds.push_back(run(times));
  return median_of(seconds);
}

void compare(Index floats) {
  const kernels::CudaDevices found = kernels::find_cuda_devices();
  if (found.devices.empty()) throw DeviceError(found.missing);
  const auto backend = kernels::make_cuda_backend(found.devices.front().number, kernels::Precision::fp32);
  Buffer g(floats, backend->memory()), theta(floats, backend->memory()), first(floats, backend->memory()),
      second(floats, backend->memory());
  const std::vector<kernels::UpdateRange> ranges = {{.first = 0, .last = floats, .decays = true}};
  const kernels::SgdStep sgd{.rate = 0.1F, .momentum = 0.9F};
  const kernels::AdamStep adam{
      .rate = 0.1F, .beta1 = 0.9F, .beta2 = 0.999F, .epsilon = 1e-8F, .correction1 = 1, .correction2 = 1};
  const std::vector<Rule> rules = {
      {"sgd", 12, [&] { backend->sgd_update(sgd, {}, ranges, g.view(), theta.view(), {}); }},
      {"sgd with momentum", 20, [&] { backend->sgd_update(sgd, {}, ranges, g.view(), theta.view(), first.view()); }},
      {"adam", 28,
       [&] { backend->adam_update(adam, {}, ranges, g.view(), theta.view(), first.view(), second.view()); }},
  };
  std::cout << backend->description() << ", " << floats << " parameters\n";
  for (const Rule& rule : rules) {
    const double copy = backend->measure_bandwidth_bytes_per_second();
    const double rate = rule.bytes * static_cast<double>(floats) / seconds_of(*backend, rule);
    std::cout << fmt::format("{:18} {:7.1f} GB/s, {:5.1f} % of a copy's {:.1f}\n", rule.name, rate * 1e-9,
                             100 * rate / copy, copy * 1e-9);
  }
}

}  // namespace
}  // namespace unisono

int main(int count, char** words) {
  const std::string_view last = words[count - 1];
  unisono::Index floats = unisono::Index{1} << 26;
  const bool sized = count == 3 && std::string_view(words[1]) == "--floats";
  const auto [end, wrong] = std::from_chars(last.data(), last.data() + last.size(), floats);
  const bool is_number = wrong == std::errc{} && end == last.data() + last.size() && floats > 0;
  if (count != 1 && !(sized && is_number)) {
    std::cerr << "usage: bench_device_updates [--floats N]\n";
    return 2;
  }
  try {
    unisono::compare(unisono::round_up_to_line(floats));
  } catch (const unisono::Error& error) {
    std::cerr << "bench_device_updates: " << error.what() << '\n';
    return static_cast<int>(error.code());
  }
}
