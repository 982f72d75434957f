#pragma once

#include <algorithm>

#include "cuda/cuda_backend.hpp"
#include "cuda/device_code.hpp"

namespace unisono::kernels::cuda {

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
