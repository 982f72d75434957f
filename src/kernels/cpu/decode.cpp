// Rows of sequences, a few at a time, each row-major in memory. Products read each weight once for all rows, which
// takes the time of reading the weights from memory.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kDecodedUnits = 4;              ///< that the loops compute together
constexpr Index kLeastShared = Index{1} << 15;  ///< multiply-adds that are worth several threads

/// Where a row finds its sequence's keys and values of one head, [T][D] each.
struct CachedHead {
  float *keys, *values;

  CachedHead(const AttentionSpec& spec, MutableView cache, Index sequence, Index head)
      : keys(cache.data() + sequence * cache_size(spec) + head * spec.rows * spec.width),
        values(keys + spec.key_heads * spec.rows * spec.width) {}
};

/// Turns heads of D values by their position's angles. \param table of CpuBackend::rotary_table
void turn_heads(const AttentionSpec& spec, const float* table, Index position, Index heads, float* x) {
  constexpr Index kBlock = kMaximumLanes;
  const Index half = spec.width / 2;
  const float* const angles = table + position / kBlock * half * 2 * kBlock + position % kBlock;
  for (Index i = 0; i < half; ++i) {
    const float cosine = angles[i * 2 * kBlock], sine = angles[(i * 2 + 1) * kBlock];
    for (float* head = x; head < x + heads * spec.width; head += spec.width) {
      const float a = head[i], b = head[half + i];
      head[i] = a * cosine - b * sine;
      head[half + i] = a * sine + b * cosine;
    }
  }
}

}  // namespace

void CpuBackend::decode_embedding(const EmbeddingSpec& spec, std::span<const DecodeRow> rows,
                                  std::span<const std::int32_t> tokens, View w, View positions, MutableView y) {
  const float* added = positions.empty() ? nullptr : positions.data();
  if (added == nullptr && spec.sinusoidal) added = sinusoids(spec);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const float* const from = w.data() + tokens[i] * spec.units;
    float* const to = y.data() + static_cast<Index>(i) * spec.units;
    std::copy_n(from, spec.units, to);
    if (added == nullptr) continue;
    const float* const position = added + rows[i].position * spec.units;
    for (Index c = 0; c < spec.units; ++c) to[c] += position[c];
  }
}

void CpuBackend::decode_dense(const DenseSpec& spec, Index rows, View x, View w, View b, MutableView y) {
  const Index in = spec.in.size(), groups = (spec.units + kDecodedUnits - 1) / kDecodedUnits;
  const RowProduct shape{
      .rows = rows, .units = spec.units, .in = in, .ldy = spec.units, .relu = spec.activation == Activation::relu};
  const int threads = rows * in * spec.units < kLeastShared ? 1 : settings_.threads;
  parallel_ranges(threads, groups, [&](Index first, Index last, int) {
    loops_.decode.product(shape, first * kDecodedUnits, std::min(last * kDecodedUnits, spec.units), x.data(), w.data(),
                          b.empty() ? nullptr : b.data(), y.data());
  });
}

/// Turned queries of all rows; their keys, turned, and values go to the cache.
void CpuBackend::fill_cache(const AttentionSpec& spec, std::span<const DecodeRow> rows, View x, MutableView cache,
                            float* queries) {
  const float* const table = rotary_table(spec);
  const Index width = spec.width, query_size = spec.heads * width, key_size = spec.key_heads * width;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto& [sequence, position] = rows[i];
    const float* const row = x.data() + static_cast<Index>(i) * spec.in().size();
    float* const query = queries + static_cast<Index>(i) * query_size;
    std::copy_n(row, query_size, query);
    if (table != nullptr) turn_heads(spec, table, position, spec.heads, query);
    for (Index g = 0; g < spec.key_heads; ++g) {
      const CachedHead head(spec, cache, sequence, g);
      std::copy_n(row + query_size + g * width, width, head.keys + position * width);
      if (table != nullptr) turn_heads(spec, table, position, 1, head.keys + position * width);
      std::copy_n(row + query_size + key_size + g * width, width, head.values + position * width);
    }
  }
}

void CpuBackend::decode_attention(const AttentionSpec& spec, std::span<const DecodeRow> rows, View x, MutableView cache,
                                  MutableView y) {
  const Index group = spec.heads / spec.key_heads, size = spec.heads * spec.width,
              tasks = std::ssize(rows) * spec.key_heads;
  const Index stride = Lanes::round_up(spec.rows), scratch = group * stride;
  float* const queries = packed_.floats(std::ssize(rows) * size + settings_.threads * scratch);
  float* const scores = queries + std::ssize(rows) * size;
  fill_cache(spec, rows, x, cache, queries);
  const double scale = std::numbers::log2e / std::sqrt(static_cast<double>(spec.width));
  parallel_ranges(settings_.threads, tasks, [&](Index first, Index last, int thread) {
    for (Index task = first; task < last; ++task) {
      const Index row = task / spec.key_heads, g = task % spec.key_heads, at = row * size + g * group * spec.width;
      const DecodeRow& place = rows[static_cast<std::size_t>(row)];
      const CachedHead head(spec, cache, place.sequence, g);
      const QueryShape shape{.queries = group,
                             .keys = place.position + 1,
                             .width = spec.width,
                             .score_stride = stride,
                             .factor = static_cast<float>(scale)};
      loops_.decode.attend(shape, queries + at, head.keys, head.values, scores + thread * scratch, y.data() + at);
    }
  });
}

void CpuBackend::decode_layer_norm(const NormSpec& spec, Index rows, View x, View gamma, View beta, MutableView y) {
  const Index n = spec.extent.size();
  for (Index i = 0; i < rows; ++i) {
    loops_.decode.layer_norm(n, static_cast<float>(spec.epsilon), x.data() + i * n, gamma.data(), beta.data(),
                             y.data() + i * n);
  }
}

void CpuBackend::decode_rms_norm(const NormSpec& spec, Index rows, View x, View gamma, MutableView y) {
  const Index n = spec.extent.size();
  for (Index i = 0; i < rows; ++i) {
    loops_.decode.rms_norm(n, static_cast<float>(spec.epsilon), x.data() + i * n, gamma.data(), y.data() + i * n);
  }
}

void CpuBackend::decode_activation(const ActivationSpec& activation, Index units, Index rows, View x, MutableView y) {
  const int threads = rows * units < kLeastShared ? 1 : settings_.threads;
  parallel_for(threads, rows, [&](Index i) {
    loops_.activation.forward(activation.kind, activation.number, x.data() + i * units, y.data() + i * units, units);
  });
}

void CpuBackend::decode_gate(Index units, Index rows, View x, MutableView y) {
  const int threads = rows * units < kLeastShared ? 1 : settings_.threads;
  parallel_for(threads, rows, [&](Index i) {
    const float* const row = x.data() + i * 2 * units;
    loops_.gate.forward(row, row + units, y.data() + i * units, units);
  });
}

}  // namespace unisono::kernels::cpu
