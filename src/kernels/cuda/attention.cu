#include <cmath>
#include <type_traits>

#include "cuda/attention_tiles.hpp"
#include "unisono/base/errors.hpp"

// Attention without a matrix of T × T: Dao et al., "FlashAttention", NeurIPS 2022.
//   forward   of a tile of queries, over tiles of keys, with the running maximum m and sum l of each row:
//             S = Q Kᵀ/√D    m' = max(m, S)    P = exp(S − m')    l ← l exp(m − m') + Σ P    O ← O exp(m − m') + P V
//             at the end y = O / l, and the log sum m + ln l
//   backward  P = exp(S − log sum)    dS = P ⊙ (dY Vᵀ − Σ dy y)/√D    dV = Pᵀ dY    dQ = dS K    dK = dSᵀ Q
// Everything is added in an order that depends on the shape alone, in floats, in any precision of activations. Flops of
// a head, half as many where causal: 4 T² D forward, 14 T² D backward, where scores are computed twice: once for dQ of
// a tile of queries, and once for dK and dV of a tile of keys. Memory: two floats for each row and head, one for each
// row and rotary value. A block has 34 KiB of shared memory.
namespace unisono::kernels::cuda {
namespace {

/// Blocks that a multiprocessor shall have registers for, where a thread has sums of so many slots.
constexpr int blocks_at_a_time(int slots) { return slots > 128 ? 1 : 2; }

__device__ float scale_of(const AttentionShape& shape) { return 1 / sqrtf(static_cast<float>(shape.width)); }

/// A block's tile of rows, of one head of one sequence. Where causal, those that see most rows come first.
struct Work {
  int sequence, head, first;

  __device__ Work(const AttentionShape& shape, int heads, bool last_first) {
    const int block = static_cast<int>(blockIdx.x), heads_in_all = static_cast<int>(gridDim.x) / shape.tiles();
    const int tile = block / heads_in_all;
    sequence = block % heads_in_all / heads;
    head = block % heads;
    first = (last_first ? shape.tiles() - 1 - tile : tile) * kTile;
  }
};

/// A head of queries, and the head of keys and of values that it reads: in x, or in dx.
template <typename T, int kDepth>
struct Inputs {
  HeadRows<T, kDepth> queries, keys, values;

  __device__ Inputs(const AttentionShape& shape, T* x, const Turn* turns, int sequence, int head)
      : queries(shape, x, shape.in(), sequence, head, turns),
        keys(shape, x, shape.in(), sequence, shape.heads + head / shape.heads_of_key(), turns),
        values(shape, x, shape.in(), sequence, shape.heads + shape.key_heads + head / shape.heads_of_key()) {}
};

/// The softmax of a thread's rows over the tiles of keys so far.
struct RunningSoftmax {
  float largest[kOwn], totals[kOwn];  ///< totals of the thread's own columns

  __device__ RunningSoftmax() {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      largest[i] = -INFINITY;
      totals[i] = 0;
    }
  }

  /// scores[i][j] ← exp(scores[i][j] − the largest so far). \return what is known of row i so far shrinks by this
  __device__ float add(int i, float (&scores)[kOwn]) {
    float top = largest[i];
    for (const float score : scores) top = fmaxf(top, score);
    top = row_max(top);
    const float shrinks = expf(largest[i] - top);
    largest[i] = top;
    totals[i] *= shrinks;
    for (float& score : scores) {
      score = expf(score - top);
      totals[i] += score;
    }
    return shrinks;
  }
};

/// \param y, log_sums [n][H]: null where they are not wanted
template <typename T, int kDepth>
__global__ void __launch_bounds__(kTileThreads, blocks_at_a_time(kDepth))
    attend(AttentionShape shape, const T* x, const Turn* turns, const ScaledMask* mask,
           const std::uint64_t* const* examples, T* y, float* log_sums) {
  __shared__ TileMemory memory;
  const Work own(shape, shape.heads, true);
  const Inputs<const T, kDepth> in(shape, x, turns, own.sequence, own.head);
  MaskFactors factors(mask, mask == nullptr ? 0 : (*examples)[own.sequence]);
  const float scale = scale_of(shape);
  const int first_row = own.first + kOwn * thread_row();
  RunningSoftmax softmax;
  Sums<kDepth> sums = {};
  const int last = shape.causal != 0 ? own.first : (shape.tiles() - 1) * kTile;
  for (int tile = 0; tile <= last; tile += kTile) {
    float scores[kOwn][kOwn];
    multiply(in.queries, own.first, in.keys, tile, memory, scores);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int row = first_row + i, first_key = tile + kOwn * thread_column();
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        scores[i][j] = shape.sees(row, first_key + j) ? scores[i][j] * scale : -INFINITY;
      }
      const float shrinks = softmax.add(i, scores[i]);
      for (float& sum : sums[i]) sum *= shrinks;
#pragma unroll
      for (int j = 0; j < kOwn; ++j) scores[i][j] *= factors.of(shape.element(own.head, row, first_key + j));
    }
    if (y == nullptr) continue;
    exchange(scores, memory);
    add_products(in.values, tile, memory, sums);
  }
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
    const float total = row_sum(softmax.totals[i]);
    for (float& sum : sums[i]) sum /= total;
    const int row = first_row + i;
    if (log_sums == nullptr || thread_column() > 0 || row >= shape.rows) continue;
    log_sums[(static_cast<std::int64_t>(own.sequence) * shape.rows + row) * shape.heads + own.head] =
        softmax.largest[i] + logf(total);
  }
  if (y == nullptr) return;
  store(HeadRows<T, kDepth>(shape, y, shape.out(), own.sequence, own.head), own.first, sums);
}

// Backward. Where log sums were not kept, `attend` finds them again.

/// sums[h] = Σ dy y, of head h of all rows; one warp for each.
template <typename T>
__global__ void sum_heads(std::int64_t heads, std::int64_t width, const T* y, const T* dy, float* sums) {
  const std::int64_t head = thread_number() / kWarp;
  if (head >= heads) return;
  float sum = 0;
  for (std::int64_t i = head * width + threadIdx.x % kWarp; i < (head + 1) * width; i += kWarp) {
    sum += to_float(y[i]) * to_float(dy[i]);
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) sums[head] = sum;
}

/// What the backward pass knows of each row and head, [n][H].
struct RowSums {
  const float *log_sums, *products;  ///< products: Σ dy y
};
struct RowSum {
  float log_sum, products;

  __device__ RowSum(const AttentionShape& shape, const RowSums& sums, const Work& own, int head, int row) {
    const std::int64_t at = (static_cast<std::int64_t>(own.sequence) * shape.rows + row) * shape.heads + head;
    log_sum = row < shape.rows ? sums.log_sums[at] : 0;
    products = row < shape.rows ? sums.products[at] : 0;
  }
};

/// The probability p of a score, and the gradient with respect to the score, from dy · v.
struct Probability {
  float dropped, gradient;  ///< dropped: p times the mask's factor

  __device__ Probability(bool is_seen, float score, float product, float factor, const RowSum& row, float scale) {
    const float p = is_seen ? expf(score * scale - row.log_sum) : 0;
    dropped = p * factor;
    gradient = p * (factor * product - row.products) * scale;
  }
};

/// dQ of a tile of queries.
template <typename T, int kDepth>
__global__ void __launch_bounds__(kTileThreads, blocks_at_a_time(kDepth))
    attend_backward_queries(AttentionShape shape, const T* x, const Turn* turns, const ScaledMask* mask,
                            const std::uint64_t* const* examples, RowSums row_sums, const T* dy, T* dx) {
  __shared__ TileMemory memory;
  const Work own(shape, shape.heads, true);
  const Inputs<const T, kDepth> in(shape, x, turns, own.sequence, own.head);
  const HeadRows<const T, kDepth> gradients(shape, dy, shape.out(), own.sequence, own.head);
  MaskFactors factors(mask, mask == nullptr ? 0 : (*examples)[own.sequence]);
  const float scale = scale_of(shape);
  Sums<kDepth> sums = {};
  const int last = shape.causal != 0 ? own.first : (shape.tiles() - 1) * kTile;
  for (int tile = 0; tile <= last; tile += kTile) {
    float scores[kOwn][kOwn], products[kOwn][kOwn];
    multiply(in.queries, own.first, in.keys, tile, memory, scores);
    multiply(gradients, own.first, in.values, tile, memory, products);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int query = own.first + kOwn * thread_row() + i;
      const RowSum row(shape, row_sums, own, own.head, query);
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const int key = tile + kOwn * thread_column() + j;
        const float factor = factors.of(shape.element(own.head, query, key));
        scores[i][j] = Probability(shape.sees(query, key), scores[i][j], products[i][j], factor, row, scale).gradient;
      }
    }
    exchange(scores, memory);
    add_products(in.keys, tile, memory, sums);
  }
  store(Inputs<T, kDepth>(shape, dx, turns, own.sequence, own.head).queries, own.first, sums);
}

/// dK and dV of a tile of keys, over the heads that read them and their queries.
template <typename T, int kDepth>
__global__ void __launch_bounds__(kTileThreads, blocks_at_a_time(2 * kDepth))
    attend_backward_keys(AttentionShape shape, const T* x, const Turn* turns, const ScaledMask* mask,
                         const std::uint64_t* const* examples, RowSums row_sums, const T* dy, T* dx) {
  __shared__ TileMemory memory;
  const Work own(shape, shape.key_heads, false);
  const int first_head = own.head * shape.heads_of_key();
  MaskFactors factors(mask, mask == nullptr ? 0 : (*examples)[own.sequence]);
  const float scale = scale_of(shape);
  Sums<kDepth> key_sums = {}, value_sums = {};
  for (int head = first_head; head < first_head + shape.heads_of_key(); ++head) {
    const Inputs<const T, kDepth> in(shape, x, turns, own.sequence, head);
    const HeadRows<const T, kDepth> gradients(shape, dy, shape.out(), own.sequence, head);
    for (int tile = shape.causal != 0 ? own.first : 0; tile < shape.rows; tile += kTile) {
      float scores[kOwn][kOwn], products[kOwn][kOwn];
      multiply(in.keys, own.first, in.queries, tile, memory, scores);
      multiply(in.values, own.first, gradients, tile, memory, products);
#pragma unroll
      for (int j = 0; j < kOwn; ++j) {
        const int query = tile + kOwn * thread_column() + j;
        const RowSum row(shape, row_sums, own, head, query);
#pragma unroll
        for (int i = 0; i < kOwn; ++i) {
          const int key = own.first + kOwn * thread_row() + i;
          const float factor = factors.of(shape.element(head, query, key));
          const Probability p(shape.sees(query, key), scores[i][j], products[i][j], factor, row, scale);
          scores[i][j] = p.dropped;
          products[i][j] = p.gradient;
        }
      }
      exchange(scores, memory);
      add_products(gradients, tile, memory, value_sums);
      exchange(products, memory);
      add_products(in.queries, tile, memory, key_sums);
    }
  }
  const Inputs<T, kDepth> out(shape, dx, turns, own.sequence, first_head);
  store(out.keys, own.first, key_sums);
  store(out.values, own.first, value_sums);
}

/// The angle of pair i in row t is t · θ^(−2i/D).
__global__ void find_turns(std::int64_t pairs, std::int64_t pairs_of_row, double base, Turn* turns) {
  const std::int64_t at = thread_number();
  if (at >= pairs) return;
  const auto row = static_cast<double>(at / pairs_of_row), pair = static_cast<double>(at % pairs_of_row);
  const double angle = row * pow(base, -pair / static_cast<double>(pairs_of_row));
  turns[at] = {static_cast<float>(cos(angle)), static_cast<float>(sin(angle))};
}

AttentionShape shape_of(const AttentionSpec& spec) {
  return {static_cast<int>(spec.rows), static_cast<int>(spec.heads), static_cast<int>(spec.key_heads),
          static_cast<int>(spec.width), spec.causal ? 1 : 0};
}

/// A block for each tile of the rows of each head.
Grid grid_of_tiles(const AttentionSpec& spec, Index batch, Index heads) {
  return {.blocks = static_cast<unsigned>(batch * heads * ((spec.rows + kTile - 1) / kTile)), .threads = kTileThreads};
}

/// Calls act with the number of slots for so many values.
template <typename Act>
void with_depth(Index width, Act act) {
  if (width <= 32) return act(std::integral_constant<int, 32>{});
  if (width <= 64) return act(std::integral_constant<int, 64>{});
  if (width <= 128) return act(std::integral_constant<int, 128>{});
  if (width <= 256) return act(std::integral_constant<int, 256>{});
  throw ConfigError("attention has no CUDA kernel for heads of more than 256 values: take more heads, or the CPU");
}

}  // namespace

const Turn* CudaBackend::turns_of(const AttentionSpec& spec) {
  if (spec.rotary == 0) return nullptr;
  const Index pairs_of_row = spec.width / 2, pairs = spec.rows * pairs_of_row;
  Turn* const turns = turns_.take<Turn>(pairs);
  queue().launch(find_turns, {.blocks = blocks_for(pairs, kBlock), .threads = kBlock}, pairs, pairs_of_row, spec.rotary,
                 turns);
  return turns;
}

const ScaledMask* CudaBackend::staged(const DropoutKey& key) {
  if (key.rate == 0) return nullptr;
  return queue().stage(ScaledMask{.mask = mask_of(key), .scale = scale_of_kept(key)});
}

namespace {

/// Log sums are floats in any precision. In bfloat16, a buffer of activations has room for half of them: then the
/// backward pass computes them again.
bool holds_log_sums(const AttentionSpec& spec, Index batch, View log_sums) {
  return std::ssize(log_sums) >= batch * spec.rows * spec.heads;
}

}  // namespace

void CudaBackend::attention_forward(const AttentionSpec& spec, Index batch, View x, const DropoutKey& dropout,
                                    std::span<const std::uint64_t> examples, MutableView y, MutableView log_sums) {
  const Turn* const turns = turns_of(spec);
  const ScaledMask* const mask = staged(dropout);
  const auto* const numbers = mask == nullptr ? nullptr : queue().upload(examples);
  float* const kept = holds_log_sums(spec, batch, log_sums) ? log_sums.data() : nullptr;
  with_type([&]<typename T>(T) {
    with_depth(spec.width, [&]<int kDepth>(std::integral_constant<int, kDepth>) {
      queue().launch(attend<T, kDepth>, grid_of_tiles(spec, batch, spec.heads), shape_of(spec), values_of<T>(x), turns,
                     mask, numbers, values_of<T>(y), kept);
    });
  });
}

void CudaBackend::attention_backward(const AttentionSpec& spec, Index batch, View x, View y, View log_sums,
                                     const DropoutKey& dropout, std::span<const std::uint64_t> examples, View dy,
                                     MutableView dx) {
  const Index heads = batch * spec.rows * spec.heads;
  float* const products = partials_.take<float>(2 * heads);
  const bool keeps = holds_log_sums(spec, batch, log_sums);
  const RowSums sums{.log_sums = keeps ? log_sums.data() : products + heads, .products = products};
  const Turn* const turns = turns_of(spec);
  with_type([&]<typename T>(T) {
    queue().launch(sum_heads<T>, {.blocks = blocks_for(heads, kBlock / kWarp), .threads = kBlock}, heads, spec.width,
                   values_of<T>(y), values_of<T>(dy), products);
    with_depth(spec.width, [&]<int kDepth>(std::integral_constant<int, kDepth>) {
      if (!keeps) {
        queue().launch(attend<T, kDepth>, grid_of_tiles(spec, batch, spec.heads), shape_of(spec), values_of<T>(x),
                       turns, nullptr, nullptr, nullptr, products + heads);
      }
      const auto launch = [&](auto kernel, Index heads_of_blocks) {
        const ScaledMask* const mask = staged(dropout);
        queue().launch(kernel, grid_of_tiles(spec, batch, heads_of_blocks), shape_of(spec), values_of<T>(x), turns,
                       mask, mask == nullptr ? nullptr : queue().upload(examples), sums, values_of<T>(dy),
                       values_of<T>(dx));
      };
      launch(attend_backward_queries<T, kDepth>, spec.heads);
      launch(attend_backward_keys<T, kDepth>, spec.key_heads);
    });
  });
}

}  // namespace unisono::kernels::cuda
