#include <cmath>

#include "cuda/device_code.hpp"

// Tokens, and their vectors.
namespace unisono::kernels::cuda {
namespace {

__global__ void copy_tokens(std::int64_t n, const std::int32_t* const* tokens, std::int32_t* x) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) x[i] = (*tokens)[i];
}

/// P[t, c] of sinusoids.
__device__ float sinusoid(std::int64_t t, std::int64_t c, std::int64_t units) {
  const double exponent = static_cast<double>(c / 2 * 2) / static_cast<double>(units);
  const double angle = static_cast<double>(t) / pow(10000.0, exponent);
  return static_cast<float>(c % 2 == 0 ? sin(angle) : cos(angle));
}

/// The tokens that W has: `count` from `first` on.
struct OwnTokens {
  std::int64_t first, count;
};

/// A thread computes element (t, c) of all sequences, so that each position is computed once.
template <typename T>
__global__ void embed(std::int64_t batch, std::int64_t rows, std::int64_t units, OwnTokens own,
                      const std::int32_t* tokens, const float* w, const float* positions, bool sinusoidal, T* y) {
  for (std::int64_t i = thread_number(); i < rows * units; i += threads_of_grid()) {
    const std::int64_t t = i / units, c = i % units;
    const bool adds = positions != nullptr || sinusoidal;
    const float position = positions != nullptr ? positions[i] : sinusoidal ? sinusoid(t, c, units) : 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t row = b * rows + t, token = tokens[row] - own.first;
      const float value = token >= 0 && token < own.count ? w[token * units + c] : -0.0F;
      y[row * units + c] = rounded_to<T>(adds ? value + position : value);
    }
  }
}

// dW: a block adds up the rows of a range of tokens, in their order, a thread for each column. It looks through all n
// tokens for them, which costs n reads of 4 bytes for each of its blocks but no memory; each row of dy is read once,
// and a row of dW is read and written for it.

/// Tokens [first, last) of a block.
struct TokenRange {
  std::int64_t first, last;
  __device__ explicit TokenRange(std::int64_t vocabulary)
      : first(vocabulary * blockIdx.x / gridDim.x), last(vocabulary * (blockIdx.x + 1) / gridDim.x) {}
  __device__ bool has(std::int64_t token) const { return first <= token && token < last; }
};

/// A row of the range.
struct FoundRow {
  std::int64_t row, token;
};

/// Lists those rows among kBlock ones that are the block's, in their order. \return how many there are
__device__ int list_rows(bool is_own, const FoundRow& own, FoundRow (&list)[kBlock]) {
  __shared__ int counts[kBlock / kWarp];
  const unsigned lane = threadIdx.x % kWarp, votes = __ballot_sync(kAllLanes, is_own ? 1 : 0);
  __syncthreads();  // the list before has been read
  if (lane == 0) counts[threadIdx.x / kWarp] = __popc(votes);
  __syncthreads();
  int before = __popc(votes & ((1U << lane) - 1)), count = 0;
  for (unsigned warp = 0; warp < kBlock / kWarp; ++warp) {
    before += warp < threadIdx.x / kWarp ? counts[warp] : 0;
    count += counts[warp];
  }
  if (is_own) list[before] = own;
  __syncthreads();
  return count;
}

template <typename T>
__global__ void add_rows_of_tokens(std::int64_t n, OwnTokens all, std::int64_t units, const std::int32_t* tokens,
                                   const T* dy, bool adds, float* dw) {
  __shared__ FoundRow list[kBlock];
  const TokenRange range(all.count);
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kBlock + threadIdx.x;
  if (!adds && column < units) {
    for (std::int64_t token = range.first; token < range.last; ++token) dw[token * units + column] = 0;
  }
  for (std::int64_t first = 0; first < n; first += kBlock) {
    FoundRow own{.row = first + threadIdx.x, .token = -1};
    if (own.row < n) own.token = tokens[own.row] - all.first;
    const int count = list_rows(range.has(own.token), own, list);
    for (int i = 0; i < count && column < units; ++i) {
      dw[list[i].token * units + column] += to_float(dy[list[i].row * units + column]);
    }
  }
}

/// dP[t, c] (+)= Σ over the sequences of dy, in their order.
template <typename T>
__global__ void add_rows_of_positions(std::int64_t batch, std::int64_t size, const T* dy, bool adds,
                                      float* dpositions) {
  for (std::int64_t i = thread_number(); i < size; i += threads_of_grid()) {
    float sum = adds ? dpositions[i] : 0;
    for (std::int64_t b = 0; b < batch; ++b) sum += to_float(dy[b * size + i]);
    dpositions[i] = sum;
  }
}

const std::int32_t* tokens_of(View x) { return reinterpret_cast<const std::int32_t*>(x.data()); }

}  // namespace

void CudaBackend::load_tokens(std::span<const std::int32_t> tokens, MutableView x) {
  const Index n = std::ssize(tokens);
  const auto* const uploaded = queue().upload(tokens);
  queue().launch(copy_tokens, grid_for(n), n, uploaded, reinterpret_cast<std::int32_t*>(x.data()));
}

void CudaBackend::embedding_forward(const EmbeddingSpec& spec, Index batch, View tokens, View w, View positions,
                                    MutableView y) {
  with_type([&]<typename T>(T) {
    queue().launch(embed<T>, grid_for(spec.rows * spec.units), batch, spec.rows, spec.units,
                   OwnTokens{spec.first, spec.vocabulary}, tokens_of(tokens), w.data(),
                   positions.empty() ? nullptr : positions.data(), spec.sinusoidal, values_of<T>(y));
  });
}

void CudaBackend::embedding_backward(const EmbeddingSpec& spec, Index batch, View tokens, View dy, MutableView dw,
                                     MutableView dpositions, Write write) {
  constexpr Index kRangesOfMultiprocessor = 4;
  const Index ranges = std::min(spec.vocabulary, device_.multiprocessors() * kRangesOfMultiprocessor);
  const Grid grid{.blocks = dim3(static_cast<unsigned>(ranges), blocks_for(spec.units, kBlock)), .threads = kBlock};
  const Index size = spec.rows * spec.units;
  const bool adds = write == Write::add;
  with_type([&]<typename T>(T) {
    if (!dw.empty()) {
      queue().launch(add_rows_of_tokens<T>, grid, batch * spec.rows, OwnTokens{spec.first, spec.vocabulary}, spec.units,
                     tokens_of(tokens), values_of<T>(dy), adds, dw.data());
    }
    if (dpositions.empty()) return;
    queue().launch(add_rows_of_positions<T>, grid_for(size), batch, size, values_of<T>(dy), adds, dpositions.data());
  });
}

}  // namespace unisono::kernels::cuda
