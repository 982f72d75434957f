// Blocks, barriers, shuffles and launches.
#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <numeric>

#include "simulated_cuda/test_support.hpp"

namespace simulated {
namespace {

__global__ void write_index(int* out, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) out[i] = i;
}

TEST_CASE("each thread of each block runs once", "[simulated][kernel]") {
  DeviceArray<int> out(1000);
  REQUIRE(launch(write_index, 8, 128, 0, nullptr, out.data(), 1000) == cudaSuccess);
  std::vector<int> expected(1000);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(out.read() == expected);
}

__global__ void write_place(unsigned* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned size = blockDim.x * blockDim.y * blockDim.z;
  atomicAdd(&out[block * size + thread], 1U);
}

TEST_CASE("three extents of grids and blocks", "[simulated][kernel]") {
  DeviceArray<unsigned> out(2 * 3 * 4 * 5 * 6 * 7);
  REQUIRE(cudaMemset(out.data(), 0, out.bytes()) == cudaSuccess);
  REQUIRE(launch(write_place, dim3(2, 3, 4), dim3(5, 6, 7), 0, nullptr, out.data()) == cudaSuccess);
  CHECK(out.read() == std::vector<unsigned>(out.size(), 1));
}

// Reverses each block's part through shared memory.
template <int size>
__global__ void __launch_bounds__(size) reverse(float* __restrict__ values) {
  __shared__ float tile[size];
  float* mine = values + blockIdx.x * size;
  tile[threadIdx.x] = mine[threadIdx.x];
  __syncthreads();
  mine[threadIdx.x] = tile[size - 1 - threadIdx.x];
}

TEST_CASE("threads meet at a barrier before they read what others wrote", "[simulated][kernel]") {
  std::vector<float> values(4 * 256);
  std::iota(values.begin(), values.end(), 0.0F);
  DeviceArray<float> array(values);
  REQUIRE(launch(reverse<256>, 4, 256, 0, nullptr, array.data()) == cudaSuccess);
  for (int block = 0; block < 4; ++block) std::reverse(&values[block * 256], &values[block * 256] + 256);
  CHECK(array.read() == values);
}

// The sum of each block by a tree in dynamic shared memory.
__global__ void tree_sum(const double* in, double* out) {
  auto* sums = reinterpret_cast<double*>(dynamic_shared());
  sums[threadIdx.x] = in[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) out[blockIdx.x] = sums[0];
}

TEST_CASE("many barriers in a loop", "[simulated][kernel]") {
  DeviceArray<double> in(std::vector<double>(3 * 1024, 0.5));
  DeviceArray<double> out(3);
  REQUIRE(launch(tree_sum, 3, 1024, 1024 * sizeof(double), nullptr, in.data(), out.data()) == cudaSuccess);
  CHECK(out.read() == std::vector<double>(3, 512.0));
}

// out[0 … 5][thread]: sum of the warp, of its parts of 8, value two lanes on, one lane before, of lane 5, odd lanes
__global__ void shuffles(float* out) {
  const unsigned size = blockDim.x;
  const float own = static_cast<float>(threadIdx.x);
  float sum = own;
  for (int bit = 16; bit > 0; bit /= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, bit);
  float part = own;
  for (int bit = 4; bit > 0; bit /= 2) part += __shfl_xor_sync(0xFFFFFFFFU, part, bit, 8);
  out[threadIdx.x] = sum;
  out[size + threadIdx.x] = part;
  out[2 * size + threadIdx.x] = __shfl_down_sync(0xFFFFFFFFU, own, 2U);
  out[3 * size + threadIdx.x] = __shfl_up_sync(0xFFFFFFFFU, own, 1U, 8);
  out[4 * size + threadIdx.x] = static_cast<float>(__shfl_sync(0xFFFFFFFFU, static_cast<double>(own), 5));
  out[5 * size + threadIdx.x] = static_cast<float>(__ballot_sync(0xFFFFFFFFU, threadIdx.x % 2) & 0xFFFFU);
}

TEST_CASE("lanes exchange values", "[simulated][kernel]") {
  const int size = 96;
  DeviceArray<float> out(6 * size);
  REQUIRE(launch(shuffles, 1, size, 0, nullptr, out.data()) == cudaSuccess);
  const auto values = out.read();
  for (int t = 0; t < size; ++t) {
    const int warp = t / 32 * 32;
    const int part = t / 8 * 8;
    CAPTURE(t);
    REQUIRE(values[t] == 32 * warp + 31 * 16);
    REQUIRE(values[size + t] == 8 * part + 28);
    REQUIRE(values[2 * size + t] == (t + 2 < warp + 32 ? t + 2 : t));
    REQUIRE(values[3 * size + t] == (t > part ? t - 1 : t));
    REQUIRE(values[4 * size + t] == warp + 5);
    REQUIRE(values[5 * size + t] == 0xAAAA);
  }
}

// Each half of the warp has its own exchange, at different places in the program.
__global__ void halves(int* out) {
  const bool low = threadIdx.x < 16;
  if (low) {
    out[threadIdx.x] = __shfl_sync(0x0000FFFFU, static_cast<int>(threadIdx.x), 3);
  } else {
    for (int i = 0; i < 3; ++i) out[threadIdx.x] = __shfl_sync(0xFFFF0000U, static_cast<int>(threadIdx.x) + i, 20);
  }
  __syncwarp();
  if (__any_sync(0xFFFFFFFFU, low) != 0 && __all_sync(0xFFFFFFFFU, low) == 0) out[threadIdx.x] += 100;
}

TEST_CASE("parts of a warp take different branches", "[simulated][kernel]") {
  DeviceArray<int> out(32);
  REQUIRE(launch(halves, 1, 32, 0, nullptr, out.data()) == cudaSuccess);
  auto expected = std::vector<int>(32, 103);
  std::fill(expected.begin() + 16, expected.end(), 122);
  CHECK(out.read() == expected);
}

// out: what the words of device code that host compilers lack give for x
__global__ void words(float* out, float x) {
  out[0] = rsqrtf(x);
  out[1] = __expf(0.0F) + __fmaf_rn(x, 2.0F, 1.0F);
  out[2] = static_cast<float>(__umulhi(0x80000000U, 6U)) + __ldg(out);
  out[3] = max(min(x, 3.0F), 2.0F);
  atomicMax(reinterpret_cast<int*>(out) + 4, 7);
  atomicAdd(reinterpret_cast<int*>(out) + 4, -2);
}

TEST_CASE("the words of device code", "[simulated][kernel]") {
  DeviceArray<float> out(std::vector<float>(5));
  REQUIRE(launch(words, 1, 1, 0, nullptr, out.data(), 4.0F) == cudaSuccess);
  const auto values = out.read();
  CHECK(std::vector<float>(values.begin(), values.begin() + 4) == std::vector<float>{0.5F, 10, 3.5F, 3});
  CHECK(std::bit_cast<int>(values[4]) == 5);
}

__global__ void first_block_wins(unsigned* order, unsigned* count) { order[atomicAdd(count, 1U)] = blockIdx.x; }

TEST_CASE("blocks run in a shuffled order, each once, the same one every time", "[simulated][kernel]") {
  std::vector<std::vector<unsigned>> orders;
  for (int repeat = 0; repeat < 2; ++repeat) {
    DeviceArray<unsigned> order(100);
    DeviceArray<unsigned> count(std::vector<unsigned>{0});
    REQUIRE(launch(first_block_wins, 100, 1, 0, nullptr, order.data(), count.data()) == cudaSuccess);
    orders.push_back(order.read());
  }
  CHECK(orders[0] == orders[1]);
  CHECK_FALSE(std::is_sorted(orders[0].begin(), orders[0].end()));
  std::sort(orders[0].begin(), orders[0].end());
  std::vector<unsigned> all(100);
  std::iota(all.begin(), all.end(), 0U);
  CHECK(orders[0] == all);
}

__global__ void nothing() {}

TEST_CASE("launches beyond the device's limits are refused", "[simulated][kernel]") {
  CHECK(launch(nothing, 0, 32, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(launch(nothing, 1, dim3(32, 33), 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(launch(nothing, 1, dim3(1, 1, 65), 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(launch(nothing, dim3(1, 65536), 32, 0, nullptr) == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(launch(nothing, 1, 1, 48 * 1024 + 1, nullptr) == cudaErrorInvalidValue);
  const auto* kernel = reinterpret_cast<const void*>(nothing);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 * 1024) == cudaErrorInvalidValue);
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024) == cudaSuccess);
  CHECK(launch(nothing, 1, 1, 227 * 1024, nullptr) == cudaSuccess);
  CHECK(launch(nothing, 1, 1, 227 * 1024 + 1, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  cudaGetLastError();
}

__global__ void leave_early() {
  if (threadIdx.x == 7) return;
  __syncthreads();
}
__global__ void different_barriers() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void shuffle_without_all(int* out) {
  if (threadIdx.x == 31) return;
  out[threadIdx.x] = __shfl_sync(0xFFFFFFFFU, 1, 0);
}
__global__ void barrier_against_shuffle(int* out) {
  if (threadIdx.x == 3) __syncthreads();
  out[threadIdx.x] = __shfl_sync(0xFFFFFFFFU, 1, 0);
}
__global__ void too_much_shared() { dynamic_shared()[threadIdx.x] = std::byte{0}; }
__global__ void write_one(int* out) { *out = 1; }

TEST_CASE("what a device leaves undefined aborts with a message", "[simulated][kernel][death]") {
  const auto run = [](auto kernel, unsigned threads, auto... arguments) {
    return death([=] {
      launch(kernel, 3, threads, 0, nullptr, arguments...);
      cudaDeviceSynchronize();
    });
  };
  DeviceArray<int> out(64);
  CHECK_THAT(run(leave_early, 64), Contains("thread (7, 0, 0) of block") && Contains("has returned"));
  CHECK_THAT(run(different_barriers, 64), Contains("wait at different barriers"));
  CHECK_THAT(run(shuffle_without_all, 32, out.data()), Contains("thread (31, 0, 0)") && Contains("has returned"));
  CHECK_THAT(run(shuffle_without_all, 31, out.data()), Contains("lacks"));
  CHECK_THAT(run(barrier_against_shuffle, 32, out.data()),
             Contains("an exchange of its warp") || Contains("a barrier"));
  CHECK_THAT(run(too_much_shared, 32), Contains("past its 0 bytes of dynamic shared memory"));
  int host = 0;
  CHECK_THAT(run(write_one, 1, &host), Contains("pageable host memory"));
  CHECK_THAT(run(write_one, 1, out.data() + 100), Contains("not allocated"));
  CHECK(host == 0);
}

#ifdef SIMULATED_CHECKS_ALIGNMENT
struct alignas(16) Four {
  int values[4];
};
__global__ void read_four(const int* in, int* out) {
  const Four four = *reinterpret_cast<const Four*>(in + threadIdx.x);
  out[threadIdx.x] = four.values[0] + four.values[3];
}

TEST_CASE("reads of several values at a misaligned address abort", "[simulated][kernel][death]") {
  const DeviceArray<int> values(std::vector<int>(16));
  const auto read_from = [&](int first, unsigned threads) {
    return death([&] {
      launch(read_four, 1, threads, 0, nullptr, values.data() + first, values.data() + 12);
      cudaDeviceSynchronize();
    });
  };
  CHECK(read_from(4, 1) == "exit 0");
  CHECK_THAT(read_from(2, 1), Contains("misaligned address") && Contains("multiple of 16"));
  CHECK_THAT(read_from(0, 2), Contains("thread (1, 0, 0)") && Contains("misaligned address"));
}
#endif

TEST_CASE("writes behind an allocation abort at the next wait", "[simulated][kernel][death]") {
  DeviceArray<int> out(63);
  CHECK_THAT(death([&] {
               launch(write_one, 1, 1, 0, nullptr, out.data() + 63);
               cudaDeviceSynchronize();
             }),
             Contains("252 bytes of device memory") || Contains("use-after-poison"));
}

}  // namespace
}  // namespace simulated
