// Inputs from rows that the GPU keeps: gathered, moved, normalised and laid out in one pass, to the same bits as on the
// CPU (see data/set/feature_writer.cpp). Bytes per element: 1, 2 or 4 read, 2 or 4 written.
#include "cuda/kept_rows.hpp"

#include <cuda_fp16.h>

#include "cuda/device_code.hpp"

namespace unisono::kernels::cuda {
namespace {

constexpr std::size_t kShareOfFreeMemory = 4;  // a set takes at most a quarter of it

__device__ float number(std::uint8_t stored) { return static_cast<float>(stored); }
__device__ float number(__half stored) { return __half2float(stored); }
__device__ float number(float stored) { return stored; }

/// Of one example; its values are numbered as activations are, channels innermost.
struct Shape {
  unsigned channels, height, width;
};

/// value = scale · stored + offset, x = (value − mean[i]) · factor[i], i counting channels, or elements [C, H, W].
struct Normaliser {
  const float *mean, *factor;
  bool by_element;
  float scale, offset;
};

/// Each operation on its own: as the CPU does it.
__device__ float value_of(const Normaliser& how, float stored) {
  return __fadd_rn(__fmul_rn(how.scale, stored), how.offset);
}
__device__ float normalised(const Normaliser& how, float value, unsigned i) {
  return __fmul_rn(__fsub_rn(value, how.mean[i]), how.factor[i]);
}

/// \param row where the example's stored values are
template <typename Stored>
__device__ float moved(const Normaliser& how, const Shape& shape, const Movement& movement, const Stored* row,
                       unsigned channel, unsigned pixel) {
  const int x = static_cast<int>(pixel % shape.width), width = static_cast<int>(shape.width);
  const int from_y = static_cast<int>(pixel / shape.width) + movement.down;
  const int from_x = (movement.flipped ? width - 1 - x : x) + movement.right;
  const bool inside = from_y >= 0 && from_y < static_cast<int>(shape.height) && from_x >= 0 && from_x < width;
  const unsigned pixels = shape.height * shape.width;
  float value = 0;
  if (inside) {
    const unsigned from =
        channel * pixels + static_cast<unsigned>(from_y) * shape.width + static_cast<unsigned>(from_x);
    value = value_of(how, number(row[from]));
  }
  const unsigned i = how.by_element ? channel * pixels + pixel : channel;
  return normalised(how, value, i);
}

/// Each block computes one example.
template <typename Stored, typename T>
__global__ void load_rows_of(Shape shape, const Normaliser* staged, const Stored* rows, std::uint64_t first,
                             const std::uint64_t* const* examples, const Movement* const* movements, T* x) {
  const Normaliser how = *staged;
  const unsigned pixels = shape.height * shape.width, size = shape.channels * pixels;
  const Stored* const row = rows + ((*examples)[blockIdx.x] - first) * size;
  T* const out = x + std::uint64_t{blockIdx.x} * size;
  for (unsigned i = threadIdx.x; i < size; i += blockDim.x) {
    const unsigned channel = i % shape.channels, pixel = i / shape.channels, at = channel * pixels + pixel;
    const float value = movements == nullptr
                            ? normalised(how, value_of(how, number(row[at])), how.by_element ? at : channel)
                            : moved(how, shape, (*movements)[blockIdx.x], row, channel, pixel);
    out[i] = rounded_to<T>(value);
  }
}

Buffer copied(Device& device, const void* from, std::size_t bytes) {
  Buffer copy(static_cast<Index>((bytes + sizeof(float) - 1) / sizeof(float)), device.memory());
  device.start_upload(from, copy.data(), bytes)->wait();
  return copy;
}

template <typename Act>
void with_stored(Storage storage, const float* rows, Act act) {
  switch (storage) {
    case Storage::uint8:
      return act(reinterpret_cast<const std::uint8_t*>(rows));
    case Storage::float16:
      return act(reinterpret_cast<const __half*>(rows));
    case Storage::float32:
      return act(rows);
  }
}

}  // namespace

KeptRows::KeptRows(CudaBackend& backend, const StoredFeatures& features)
    : backend_(backend),
      original_(features),
      rows_(copied(*backend.device(), features.rows, features.bytes())),
      mean_(copied(*backend.device(), features.mean.data(), features.mean.size() * sizeof(float))),
      factor_(copied(*backend.device(), features.factor.data(), features.factor.size() * sizeof(float))) {}

KeptFeatures* CudaBackend::keep(const StoredFeatures& features) {
  for (const auto& kept : kept_) {
    if (kept->original() == features) return kept.get();
  }
  if (features.bytes() > device_.free_bytes() / kShareOfFreeMemory) return nullptr;
  KeptFeatures* const added = kept_.emplace_back(std::make_unique<KeptRows>(*this, features)).get();
  device_.set_kept_bytes(kept_bytes());
  return added;
}

std::size_t CudaBackend::kept_bytes() const {
  std::size_t bytes = 0;
  for (const auto& kept : kept_) bytes += kept->original().bytes();
  return bytes;
}

void CudaBackend::load_rows(const KeptRows& kept, std::span<const std::uint64_t> examples,
                            std::span<const Movement> movements, MutableView x) {
  const StoredFeatures& set = kept.original();
  const Shape shape{static_cast<unsigned>(set.channels), static_cast<unsigned>(set.height),
                    static_cast<unsigned>(set.width)};
  const Normaliser how{.mean = kept.mean().data(),
                       .factor = kept.factor().data(),
                       .by_element = static_cast<Index>(set.mean.size()) > set.channels,
                       .scale = set.scale,
                       .offset = set.offset};
  const Grid grid{.blocks = static_cast<unsigned>(examples.size()), .threads = kBlock};
  const auto* const staged = queue().stage(how);
  const auto* const numbers = queue().upload(examples);
  const auto* const moves = movements.empty() ? nullptr : queue().upload(movements);
  with_stored(set.storage, kept.rows().data(), [&]<typename Stored>(const Stored* rows) {
    with_type([&]<typename T>(T) {
      queue().launch(load_rows_of<Stored, T>, grid, shape, staged, rows, set.first, numbers, moves, values_of<T>(x));
    });
  });
}

void KeptRows::load(std::span<const std::uint64_t> examples, std::span<const Movement> movements, MutableView x) {
  backend_.load_rows(*this, examples, movements, x);
}

}  // namespace unisono::kernels::cuda
