// Attention in blocks of 64 queries and 64 keys, of which no more exist at a time than fit into the second-level cache.
//
//   forward    for each block i of queries, for runs of up to 4 blocks j of keys:
//                S = K_j Q_iᵀ;  P = 2^(S log₂e / √D − m), m the largest so far;  O = O · 2^(m before − m) + Vᵀ_j P
//              y = O / Σ P, and L = m ln 2 + ln Σ P is kept for the backward pass
//   backward   for each block j of keys, for runs of up to 4 blocks i of queries:
//                P = exp(Q_i K_jᵀ / √D − L_i);  dP = dY_i V_jᵀ;  dS = P ⊙ (dP − Σ_d dY_i Y_i) / √D
//                dV_j += Pᵀ dY_i;  dK_j += dSᵀ Q_i;  dQ_i += dS K_j
//   Dao et al., FlashAttention, 2022; the running maximum and sum: Milakov & Gimelshein 2018.
//
// A head's values of 64 rows are a panel [D][64 rows], as they are in activations: read from there where sequences
// begin at blocks, else copied. Queries are the SIMD lanes forward, keys backward. Blocks above the diagonal are
// skipped; on it, 16 queries and 16 keys share a border. So 2 (forward) and 5 (backward) products of T²·D flops, half
// of them where causal, need O(T·D) floats a thread. All sums are in an order that depends on T alone.
#include "cpu/attention.hpp"

#include <cassert>
#include <limits>

#include "cpu/cpu_backend.hpp"
#include "cpu/dropout.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {
namespace attention {

std::vector<MaskKey> mask_keys(const DropoutKey& key, std::span<const std::uint64_t> examples) {
  std::vector<MaskKey> keys;
  if (key.rate == 0) return keys;
  for (std::uint64_t example : examples) {
    keys.push_back({.key = mask_key(key),
                    .first = static_cast<std::uint64_t>(key.first),
                    .epoch = key.epoch,
                    .threshold = mask_threshold(key),
                    .example_low = static_cast<std::uint32_t>(example),
                    .example_high = static_cast<std::uint32_t>(example >> 32),
                    .scale = mask_scale(key)});
  }
  return keys;
}

namespace {

struct ForwardViews {
  View x;
  MutableView y, log_sums;
};

/// A query head of a sequence, with its keys and values.
class ForwardHead {
 public:
  /// Floats of scratch memory: keys and values; queries, outputs, scores, mask.
  static Index scratch(const Pass& pass) { return (2 * pass.blocks() + 2) * pass.panel() + (kRun + 2) * kTile; }

  ForwardHead(const Pass& pass, const ForwardViews& views, Index sequence, Index g, float* scratch)
      : pass_(pass),
        views_(views),
        sequence_(sequence),
        rows_(pass.lanes, sequence, pass.spec.rows),
        q_room_(scratch + 2 * pass.blocks() * pass.panel()),
        outputs_(q_room_ + pass.panel()),
        scores_(outputs_ + pass.panel()),
        mask_(scores_ + kRun * kTile) {
    k_ = panels_of(pass, rows_, input(pass.key(g)), true, scratch);
    v_ = panels_of(pass, rows_, input(pass.value(g)), false, scratch + pass.blocks() * pass.panel());
  }

  /// The outputs of a block of queries.
  void attend(Index h, Index block) {
    const AttentionSpec& spec = pass_.spec;
    const float* const q = panel_of(pass_, rows_, input(pass_.query(h)), true, block, q_room_);
    RunningSoftmax running{};
    std::fill_n(running.largest, kRows, -std::numeric_limits<float>::infinity());
    const Index end = spec.causal ? block + 1 : pass_.blocks();
    for (Index first = 0; first < end; first += kRun) {
      const Index last = std::min(first + kRun, end), full = spec.causal && last == end ? last - 1 : last;
      add_run({block, first, last, full}, h, q, running);
    }
    write(h, block, running);
  }

 private:
  /// Blocks of keys [first, last), of which those from `full` on are on the diagonal.
  struct Run {
    Index query, first, last, full;
  };

  Features<const float> input(Index feature) const {
    return {views_.x, pass_.spec.in().size(), feature, pass_.spec.width};
  }
  Index queries(Index block) const { return Lanes::round_up(rows_.size(block)); }
  float* diagonal(const Run& run) const { return scores_ + (run.full - run.first) * kTile; }

  void add_run(const Run& run, Index h, const float* q, RunningSoftmax& running) {
    score(run, q);
    const Index keys = std::min(run.last * kRows, pass_.spec.rows) - run.first * kRows;
    const ScoreShape shape{queries(run.query), keys, run.full < run.last ? (run.full - run.first) * kRows : keys,
                           pass_.factor()};
    const AttentionLoops& loops = pass_.loops.attention;
    loops.probabilities(shape, scores_, running);
    if (!pass_.masks.empty()) drop(run, h);
    if (run.first > 0) loops.scale(pass_.spec.width, shape.queries, running.correction, outputs_, outputs_);
    add_values(run);
  }

  /// S[key][query] = K Qᵀ
  void score(const Run& run, const float* q) const {
    ProductShape shape{
        .m = queries(run.query), .k = pass_.spec.width, .lda = kRows, .ldb = kRows, .ldc = kRows, .transposed = true};
    for (Index j = run.first; j < run.full; ++j) {
      shape.n = rows_.size(j);
      multiply(pass_.loops, shape, q, k_[j], scores_ + (j - run.first) * kTile);
    }
    if (run.full == run.last) return;
    const Index keys = rows_.size(run.query);
    for (Index key = 0; key < keys; key += kGroup) {
      shape.m = queries(run.query) - key;
      shape.n = std::min(kGroup, keys - key);
      multiply(pass_.loops, shape, q + key, k_[run.query] + key, diagonal(run) + key * kRows + key);
    }
  }

  /// P = P ⊙ mask
  void drop(const Run& run, Index h) const {
    float* const by_key = mask_ + kTile;
    for (Index j = run.first; j < run.last; ++j) {
      make_mask(pass_, sequence_, h, run.query * kRows, rows_.size(run.query), j * kRows, rows_.size(j), mask_);
      pass_.loops.transpose(rows_.size(run.query), rows_.size(j), mask_, kRows, by_key, kRows);
      pass_.loops.attention.multiply(rows_.size(j), queries(run.query), by_key, scores_ + (j - run.first) * kTile);
    }
  }

  /// O[d][query] = [O +] Vᵀ P
  void add_values(const Run& run) const {
    BlockSum{pass_.loops, queries(run.query), pass_.spec.width}(rows_, run.first, run.full, scores_, v_, run.first > 0,
                                                                outputs_);
    if (run.full == run.last) return;
    for (Index query = 0; query < queries(run.query); query += kGroup) {
      const ProductShape shape{.m = kGroup,
                               .n = pass_.spec.width,
                               .k = std::min(query + kGroup, rows_.size(run.query)),
                               .lda = kRows,
                               .ldb = kRows,
                               .ldc = kRows,
                               .accumulate = run.full > 0};
      multiply(pass_.loops, shape, diagonal(run) + query, v_[run.query], outputs_ + query);
    }
  }

  void write(Index h, Index block, const RunningSoftmax& running) const {
    float log_sums[kRows], inverse[kRows];
    const AttentionSpec& spec = pass_.spec;
    pass_.loops.attention.finish(queries(block), running, log_sums, inverse);
    const Features<float> y{views_.y, spec.out().size(), pass_.query(h), spec.width};
    float* const to = result_panel(pass_, rows_, y, false, block, outputs_);
    pass_.loops.attention.scale(spec.width, queries(block), inverse, outputs_, to);
    finish_panel(pass_, rows_, y, false, block, to);
    if (!views_.log_sums.empty()) {
      write_panel(pass_, rows_, {views_.log_sums, spec.heads, h, 1}, block, log_sums);
    }
  }

  const Pass& pass_;
  const ForwardViews& views_;
  Index sequence_;
  SequenceRows rows_;
  Panels k_{}, v_{};
  float *q_room_, *outputs_, *scores_, *mask_;
};

}  // namespace
}  // namespace attention

/// Cosines and sines of the angles of rotary positions, [block][D/2][2][64 rows], made once for each shape.
const float* CpuBackend::rotary_table(const AttentionSpec& spec) {
  using attention::kRows;
  if (spec.rotary == 0) return nullptr;
  const Index half = spec.width / 2, blocks = (spec.rows + kRows - 1) / kRows;
  Buffer& table = rotary_[{spec.rows, spec.width, spec.rotary}];
  if (table.size() > 0 || half == 0) return table.data();
  table = Buffer(blocks * half * 2 * kRows);
  for (Index i = 0; i < half; ++i) {
    const double speed = std::pow(spec.rotary, -2 * static_cast<double>(i) / static_cast<double>(spec.width));
    for (Index t = 0; t < blocks * kRows; ++t) {
      float* const cosine = table.data() + (t / kRows * half + i) * 2 * kRows + t % kRows;
      cosine[0] = static_cast<float>(std::cos(static_cast<double>(t) * speed));
      cosine[kRows] = static_cast<float>(std::sin(static_cast<double>(t) * speed));
    }
  }
  return table.data();
}

void CpuBackend::attention_forward(const AttentionSpec& spec, Index batch, View x, const DropoutKey& dropout,
                                   std::span<const std::uint64_t> examples, MutableView y, MutableView log_sums) {
  using namespace attention;
  assert(spec.heads % spec.key_heads == 0);
  const std::vector<MaskKey> masks = mask_keys(dropout, examples);
  const Pass pass{loops_, spec, Lanes(batch * spec.rows), rotary_table(spec), masks};
  const ForwardViews views{x, y, log_sums};
  const Index heads = batch * spec.key_heads, group = spec.heads / spec.key_heads;
  const Index parts = parts_of(heads, pass.blocks(), settings_.threads), size = ForwardHead::scratch(pass);
  float* const scratch = packed_.floats(size * settings_.threads);
  parallel_ranges(settings_.threads, heads * parts, [&](Index first, Index last, int thread) {
    for (Index task = first; task < last; ++task) {
      const Index sequence = task / parts / spec.key_heads, g = task / parts % spec.key_heads;
      ForwardHead head(pass, views, sequence, g, scratch + thread * size);
      for (Index h = g * group; h < (g + 1) * group; ++h) {
        for (Index block = task % parts; block < pass.blocks(); block += parts) head.attend(h, block);
      }
    }
  });
  clear_unused(pass.lanes, spec.out().size(), y);
  if (!log_sums.empty()) clear_unused(pass.lanes, spec.heads, log_sums);
}

}  // namespace unisono::kernels::cpu
