#pragma once

#include <cmath>
#include <cstdint>

#include "unisono/base/random.hpp"
#include "unisono/kernels/layer_kernels.hpp"

namespace unisono::kernels::cpu {

/// The key of Philox for a layer's masks.
inline std::uint64_t mask_key(const DropoutKey& key) {
  return stream_key(key.seed ^ (std::uint64_t{key.layer} << 32), Purpose::dropout);
}
/// Of an element's 24 random bits: below this it is zeroed.
inline std::uint32_t mask_threshold(const DropoutKey& key) {
  return static_cast<std::uint32_t>(std::ceil(std::ldexp(key.rate, 24)));
}
/// The factor of elements that are kept.
inline float mask_scale(const DropoutKey& key) { return 1.0F / (1.0F - key.rate); }

}  // namespace unisono::kernels::cpu
