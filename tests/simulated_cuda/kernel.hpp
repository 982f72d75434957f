#pragma once
// The words of CUDA C++ for a compiler that does not know them, so that kernels are ordinary functions, and
// simulated::launch in place of <<<…>>>.
//
// A kernel's __shared__ variables keep what the block before left in them, where a device's hold anything;
// simulated::dynamic_shared() begins as 0xFF bytes. A mask of a warp's exchange must name lanes that exist and have
// not returned: aborts otherwise, though CUDA forgives some of it.

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>

#include "simulated_cuda/block.hpp"
#include "simulated_cuda/submit.hpp"

#ifdef __CUDACC__
#error "simulated_cuda/kernel.hpp is for compilers that do not know CUDA; nvcc needs none of it"
#endif

#undef __shared__
#define __shared__ static thread_local
#undef __constant__
#define __constant__ static const
#define __launch_bounds__(...)

extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
inline constexpr int warpSize = 32;

namespace simulated {

template <typename T>
constexpr bool fits_shuffle = std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);

/// The value of the same variable in lane `source` of the warp.
template <typename T>
T shuffle(unsigned mask, T value, unsigned source, const Place& where) {
  static_assert(fits_shuffle<T>, "shuffles take numbers of 4 or 8 bytes");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = meet_warp(Exchange::shuffle, mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Where a part of `width` lanes begins that holds the running lane.
inline unsigned part(int width) {
  if (width < 1 || width > warpSize || (width & (width - 1)) != 0) fatal("a shuffle's width is %d", width);
  return lane() & ~(static_cast<unsigned>(width) - 1);
}

template <typename T>
T add_atomically(T* address, T value) {
  const T before = *address;
  *address = before + value;
  return before;
}
template <typename T>
T raise_atomically(T* address, T value) {
  const T before = *address;
  if (before < value) *address = value;
  return before;
}

}  // namespace simulated

inline void __syncthreads(simulated::Place where = simulated::Place::here()) { simulated::meet_block(where); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFFU, simulated::Place where = simulated::Place::here()) {
  simulated::meet_warp(simulated::Exchange::wait, mask, 0, 0, where);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              simulated::Place where = simulated::Place::here()) {
  const unsigned within = static_cast<unsigned>(source) & (static_cast<unsigned>(width) - 1);
  return simulated::shuffle(mask, value, simulated::part(width) + within, where);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = warpSize,
                  simulated::Place where = simulated::Place::here()) {
  const unsigned source = simulated::lane() ^ static_cast<unsigned>(bits);
  const bool beyond = source >= simulated::part(width) + static_cast<unsigned>(width);  // earlier parts may be read
  return simulated::shuffle(mask, value, beyond ? simulated::lane() : source, where);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = warpSize,
                   simulated::Place where = simulated::Place::here()) {
  const unsigned source = simulated::lane() + lanes;
  const bool beyond = source >= simulated::part(width) + static_cast<unsigned>(width);
  return simulated::shuffle(mask, value, beyond ? simulated::lane() : source, where);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = warpSize,
                 simulated::Place where = simulated::Place::here()) {
  const bool beyond = simulated::lane() < simulated::part(width) + lanes;
  return simulated::shuffle(mask, value, beyond ? simulated::lane() : simulated::lane() - lanes, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, simulated::Place where = simulated::Place::here()) {
  const std::uint64_t vote = predicate != 0 ? 1 : 0;
  return static_cast<unsigned>(simulated::meet_warp(simulated::Exchange::ballot, mask, vote, 0, where));
}
inline int __any_sync(unsigned mask, int predicate, simulated::Place where = simulated::Place::here()) {
  return __ballot_sync(mask, predicate, where) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, simulated::Place where = simulated::Place::here()) {
  return __ballot_sync(mask, predicate, where) == mask ? 1 : 0;
}

// Threads of one launch run on one host thread and launches exclude each other: plain reads and writes are atomic.
inline float atomicAdd(float* address, float value) { return simulated::add_atomically(address, value); }
inline double atomicAdd(double* address, double value) { return simulated::add_atomically(address, value); }
inline int atomicAdd(int* address, int value) {
  return static_cast<int>(
      simulated::add_atomically(reinterpret_cast<unsigned*>(address), static_cast<unsigned>(value)));
}
inline unsigned atomicAdd(unsigned* address, unsigned value) { return simulated::add_atomically(address, value); }
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return simulated::add_atomically(address, value);
}
// On a device, atomicMax is for integers alone.
inline int atomicMax(int* address, int value) { return simulated::raise_atomically(address, value); }
inline unsigned atomicMax(unsigned* address, unsigned value) { return simulated::raise_atomically(address, value); }
inline unsigned long long atomicMax(unsigned long long* address, unsigned long long value) {
  return simulated::raise_atomically(address, value);
}

// nvcc declares these globally.
template <typename T>
requires std::is_arithmetic_v<T>
constexpr T min(T a, T b) { return b < a ? b : a; }
template <typename T>
requires std::is_arithmetic_v<T>
constexpr T max(T a, T b) { return a < b ? b : a; }

template <typename T>
T __ldg(const T* address) {
  return *address;
}
// Nobody may join these.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((std::uint64_t{a} * b) >> 32); }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline void __threadfence() {}
inline void __threadfence_block() {}
#ifdef __GLIBC_PREREQ
#if __GLIBC_PREREQ(2, 42)
#define SIMULATED_RSQRTF_EXISTS
#endif
#endif
#ifndef SIMULATED_RSQRTF_EXISTS
inline float rsqrtf(float x) { return static_cast<float>(1 / std::sqrt(static_cast<double>(x))); }
#endif
extern "C" float __expf(float x) noexcept;

namespace simulated {

/// Gives a kernel to the stream, as kernel<<<grid, block, shared_bytes, stream>>>(arguments...) does. The arguments are
/// converted to the kernel's parameters and copied. Pointers among them must be null or point to (or behind) memory of
/// the stream's device or pinned memory when the kernel runs: aborts otherwise.
/// \return as cudaLaunchKernel: cudaErrorInvalidConfiguration for more than 1024 threads in a block or extents that are
///         zero or too large, cudaErrorInvalidValue for more shared memory than is allowed
template <typename... P, typename... A>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, std::size_t shared_bytes, cudaStream_t stream,
                   A... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "a kernel takes as many arguments as it has parameters");
  static_assert((std::is_convertible_v<A, P> && ...), "an argument does not convert to its parameter");
  static_assert((std::is_trivially_copyable_v<std::remove_cv_t<P>> && ...), "parameters are copied byte by byte");
  struct Bound {
    void (*kernel)(P...);
    std::tuple<std::remove_cv_t<P>...> values;
  };
  Launch request;
  request.kernel = reinterpret_cast<const void*>(kernel);
  request.types = __PRETTY_FUNCTION__;
  request.grid = {grid, block, shared_bytes, nullptr, nullptr};
  const auto call = std::make_shared<const Bound>(Bound{kernel, {static_cast<P>(arguments)...}});
  request.grid.arguments = call.get();
  request.grid.body = [](const void* arguments_) {
    const auto& c = *static_cast<const Bound*>(arguments_);
    std::apply(c.kernel, c.values);
  };
  request.arguments = call;
  const auto note = [&](auto value) {
    if constexpr (std::is_pointer_v<decltype(value)>) request.pointers.push_back(reinterpret_cast<const void*>(value));
  };
  std::apply([&](auto... values) { (note(values), ...); }, call->values);
  return submit_kernel(std::move(request), stream);
}

}  // namespace simulated
