// The matrix products of a GPU: what cuBLASLt's first choice reaches, which is what training takes, and the fastest of
// all algorithms that it offers: the ceiling of a dense network's speed.
//   bench_device_products [--precision bf16] [--sizes 4096,8192,16384]
// For each size N: the product of two [N, N] matrices, and those of a dense layer of N inputs and N units with a batch
// of N / 2: y = x Wᵀ, dx = dy W, dW = dyᵀ x. The matrices hold random numbers: others, such as zeros, cost less power
// and are multiplied faster.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cuda/cuda_device.hpp"
#include "cuda/matmul.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/median.hpp"
#include "unisono/base/random.hpp"

namespace unisono::kernels::cuda {
namespace {

constexpr int kOffers = 8, kRounds = 3;
constexpr double kRoundSeconds = 0.02;
constexpr Index kNumbers = Index{1} << 20;  // that are drawn; a matrix repeats them

struct Product {
  std::string name;
  ProductSpec spec;
  double flops() const {
    return 2 * static_cast<double>(spec.m) * static_cast<double>(spec.n) * static_cast<double>(spec.k);
  }
};

std::vector<Product> products_of(Index n) {
  const Index batch = std::max<Index>(n / 2, 1);
  return {{"square", {.m = n, .n = n, .k = n, .transpose_a = true}},
          {"y", {.m = n, .n = batch, .k = n, .transpose_a = true}},
          {"dx", {.m = n, .n = batch, .k = n}},
          {"dW", {.m = n, .n = n, .k = batch, .transpose_b = true, .floats = true}}};
}

/// A matrix of random numbers between -1 and 1. A bfloat16 is the upper half of a float.
Buffer random_matrix(CudaDevice& device, Precision precision, Index size) {
  RandomStream random(1, Purpose::test);
  std::vector<float> numbers(static_cast<std::size_t>(std::min(size, kNumbers)));
  for (float& number : numbers) number = random.uniform(-1, 1);
  if (stores_halves(precision)) {
    std::vector<std::uint16_t> halves(2 * numbers.size());
    for (std::size_t i = 0; i < halves.size(); ++i) {
      std::memcpy(&halves[i], reinterpret_cast<const char*>(&numbers[i % numbers.size()]) + 2, 2);
    }
    std::memcpy(numbers.data(), halves.data(), halves.size() / 2 * 2);
  }
  Buffer matrix(activation_floats(precision, size), device.memory());
  for (Index first = 0; first < matrix.size(); first += std::ssize(numbers)) {
    const auto count = static_cast<std::size_t>(std::min<Index>(std::ssize(numbers), matrix.size() - first));
    device.memory().copy(View(numbers).first(count), matrix.view().subspan(static_cast<std::size_t>(first), count));
  }
  return matrix;
}

/// One GPU's products of one precision.
class Bench {
 public:
  Bench(int device, Precision precision) : device_(device), precision_(precision), products_(precision, kOffers) {}

  const std::string& device() const { return device_.name(); }
  /// TFLOP/s of each algorithm that the library offers, in its order.
  std::vector<double> measure(const Product& product) {
    const ProductSpec& spec = product.spec;
    Buffer a = random_matrix(device_, precision_, spec.m * spec.k),
           b = random_matrix(device_, precision_, spec.k * spec.n);
    Buffer d(spec.m * spec.n, device_.memory());
    Buffer workspace(static_cast<Index>(Products::kWorkspaceBytes / sizeof(float)), device_.memory());
    const ProductMemory memory{.a = a.data(), .b = b.data(), .d = d.data(), .workspace = workspace.data()};
    std::vector<double> rates;
    for (int offer = 0; offer < products_.offers(spec); ++offer) {
      products_.choose(spec, offer);
      rates.push_back(product.flops() / seconds_of(spec, memory) * 1e-12);
    }
    return rates;
  }

 private:
  double seconds_of(const ProductSpec& spec, const ProductMemory& memory) {
    const auto run = [&](int times) {
      const Stopwatch watch;
      for (int i = 0; i < times; ++i) products_.multiply(device_.queue(), spec, memory);
      device_.synchronise();
      return watch.seconds() / times;
    };
    run(1);
    const int times = std::clamp(static_cast<int>(kRoundSeconds / run(1)), 1, 1000);
    for (int i = 0; i < 3; ++i) run(times);  // the third time, it is recorded as a graph
    std::vector<double> seconds;
    for (int round = 0; round < kRounds; ++round) seconds.push_back(run(times));
    return median_of(seconds);
  }

  CudaDevice device_;
  Precision precision_;
  Products products_;
};

void compare(Precision precision, const std::vector<Index>& sizes) {
  const CudaDevices found = find_cuda_devices();
  if (found.devices.empty()) throw DeviceError(found.missing);
  Bench bench(found.devices.front().number, precision);
  std::cout << bench.device() << ", " << name_of(precision) << std::endl;
  bench.measure(products_of(sizes.front()).front());  // until the GPU's clock has risen
  double fastest = 0;
  std::string where;
  for (const Index size : sizes) {
    for (const Product& product : products_of(size)) {
      const std::vector<double> rates = bench.measure(product);
      if (rates.empty()) throw DeviceError("cuBLASLt has no kernel for this product");
      const auto best = std::max_element(rates.begin(), rates.end());
      std::cout << fmt::format(
                       "{:6} m {:5}, n {:5}, k {:5}: first choice {:8.5g} TFLOP/s, fastest of {} {:8.5g} TFLOP/s",
                       product.name, product.spec.m, product.spec.n, product.spec.k, rates.front(), rates.size(), *best)
                << std::endl;
      if (*best <= fastest) continue;
      fastest = *best;
      where = fmt::format("{}, {} × {} × {}", product.name, product.spec.m, product.spec.n, product.spec.k);
    }
  }
  std::cout << fmt::format("fastest: {:.5g} TFLOP/s ({})\n", fastest, where);
}

/// Empty where the text is no such list.
std::vector<Index> sizes_in(std::string_view text) {
  std::vector<Index> sizes;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (bool more = true; more;) {
    Index size = 0;
    const auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc{} || size < 1 || size > 65536) return {};
    sizes.push_back(size);
    more = next != end && *next == ',';
    at = more ? next + 1 : next;
  }
  return at == end ? sizes : std::vector<Index>{};
}

std::optional<Precision> precision_in(std::string_view text) {
  for (const Precision precision : {Precision::fp32, Precision::tf32, Precision::bf16}) {
    if (text == name_of(precision)) return precision;
  }
  return {};
}

/// \return the exit code
int run(const std::vector<std::string_view>& words) {
  std::optional<Precision> precision = Precision::bf16;
  std::vector<Index> sizes = {4096, 8192, 16384};
  bool known = words.size() % 2 == 0;
  for (std::size_t i = 0; known && i < words.size(); i += 2) {
    if (words[i] == "--precision") precision = precision_in(words[i + 1]);
    if (words[i] == "--sizes") sizes = sizes_in(words[i + 1]);
    known = words[i] == "--precision" || words[i] == "--sizes";
  }
  if (!known || !precision || sizes.empty()) {
    std::cerr << "usage: bench_device_products [--precision fp32|tf32|bf16] [--sizes N[,N…]]\n";
    return 2;
  }
  compare(*precision, sizes);
  return 0;
}

}  // namespace
}  // namespace unisono::kernels::cuda

int main(int count, char** words) {
  try {
    return unisono::kernels::cuda::run({words + 1, words + count});
  } catch (const unisono::Error& error) {
    std::cerr << "bench_device_products: " << error.what() << '\n';
    return static_cast<int>(error.code());
  }
}
