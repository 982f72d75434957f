#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

#include "cuda/cuda_backend.hpp"
#include "cuda/launch.hpp"

// What kernels share: types of activations, packs of neighbouring values, sums over warps and blocks.
namespace unisono::kernels::cuda {

using Half = __nv_bfloat16;

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(Half x) { return __bfloat162float(x); }
template <typename T>
__device__ inline T rounded_to(float x);
template <>
__device__ inline float rounded_to<float>(float x) {
  return x;
}
template <>
__device__ inline Half rounded_to<Half>(float x) {
  return __float2bfloat16(x);
}

/// Values that are read and written together.
template <typename T, int kValues>
struct alignas(sizeof(T) * kValues) Pack {
  T values[kValues];
};

__device__ inline std::int64_t thread_number() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t threads_of_grid() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFF;

/// Σ over the lanes of a warp, in each of them.
template <typename T>
__device__ T warp_sum(T value) {
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, static_cast<int>(distance));
  }
  return value;
}
template <typename T>
__device__ T warp_max(T value) {
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(kAllLanes, value, static_cast<int>(distance));
    value = value < other ? other : value;
  }
  return value;
}

/// Values of the warps of a block in each thread: lane i has that of warp i, or `none`. All threads must call it.
template <typename T>
__device__ T of_warps(T value, T none) {
  __shared__ T parts[kWarp];
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  __syncthreads();  // the parts of the sum before have been read
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  return lane < warps ? parts[lane] : none;
}

/// Σ over the threads of a block of whole warps, in each of them.
template <typename T>
__device__ T block_sum(T value) {
  return warp_sum(of_warps(warp_sum(value), T(0)));
}
/// The largest value of them, in each of them.
template <typename T>
__device__ T block_max(T value) {
  value = warp_max(value);
  return warp_max(of_warps(value, value));
}

constexpr unsigned kBlock = 256;  ///< threads

inline unsigned blocks_for(Index count, Index each) {
  return static_cast<unsigned>(std::max<Index>(1, (count + each - 1) / each));
}

template <typename Act>
void CudaBackend::with_type(Act act) const {
  if (stores_halves(precision_)) {
    act(Half{});
  } else {
    act(float{});
  }
}

template <typename Act>
void CudaBackend::with_packs(Index count, Act act) const {
  with_type([&]<typename T>(T) {
    constexpr int kValues = 16 / sizeof(T);
    if (count % kValues == 0) {
      act(Pack<T, kValues>{});
    } else {
      act(Pack<T, 1>{});
    }
  });
}

/// A buffer of activations as a pointer to its values.
template <typename T>
const T* values_of(View x) {
  return reinterpret_cast<const T*>(x.data());
}
template <typename T>
T* values_of(MutableView x) {
  return reinterpret_cast<T*>(x.data());
}

}  // namespace unisono::kernels::cuda
