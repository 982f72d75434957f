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
#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <limits>

#include "cpu/cpu_backend.hpp"
#include "cpu/lanes.hpp"
#include "cpu/loop_team.hpp"
#include "unisono/base/random.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kRows = kMaximumLanes;    ///< of a block of queries or keys
constexpr Index kTile = kRows * kRows;    ///< scores of two blocks
constexpr Index kRun = 4;                 ///< blocks at a time: 64 KiB of scores
constexpr Index kGroup = Lanes::kVector;  ///< queries or keys that share a border on the diagonal
constexpr double kLog2E = 1.4426950408889634;

/// The rows of one sequence among those of a batch, in blocks of kRows from its first row on.
class SequenceRows {
 public:
  SequenceRows(const Lanes& lanes, Index sequence, Index rows) : lanes_(lanes), first_(sequence * rows), rows_(rows) {}

  Index size(Index block) const { return std::min(kRows, rows_ - block * kRows); }
  /// Whether its blocks are those of the activations.
  bool aligned() const { return lanes_.width == kRows && first_ % kRows == 0; }
  /// The place of a feature of its first row. \pre aligned()
  Index at(Index features, Index feature) const { return (first_ / kRows * features + feature) * kRows; }

  /// Calls work(panel_lane, activation, count) for each part of a block that lies in one block of the activations: its
  /// first lane in a panel, its first float among activations of so many features, and its rows.
  template <typename Work>
  void for_each_part(Index block, Index features, Index feature, const Work& work) const {
    for (Index done = 0; done < size(block);) {
      const Index row = first_ + block * kRows + done, lane = row % lanes_.width;
      const Index count = std::min(size(block) - done, lanes_.width - lane);
      work(done, (row / lanes_.width * features + feature) * lanes_.width + lane, count);
      done += count;
    }
  }
  Index width() const { return lanes_.width; }

 private:
  Lanes lanes_;
  Index first_, rows_;
};

/// The panels of a head's blocks.
template <typename Float>
struct Panels {
  Float* first;
  Index stride;
  Float* operator[](Index block) const { return first + block * stride; }
};

/// What a pass over all sequences shares.
struct Pass {
  const Loops& loops;
  const AttentionSpec& spec;
  Lanes lanes;
  const float* rotary;             ///< [block][D/2][2][kRows], or null
  std::span<const MaskKey> masks;  ///< one for each sequence, or none

  Index blocks() const { return (spec.rows + kRows - 1) / kRows; }
  Index panel() const { return spec.width * kRows; }
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(spec.width))); }
  float factor() const { return static_cast<float>(kLog2E / std::sqrt(static_cast<double>(spec.width))); }
  /// The first feature of head h's queries, and of key head g's keys and values.
  Index query(Index h) const { return h * spec.width; }
  Index key(Index g) const { return (spec.heads + g) * spec.width; }
  Index value(Index g) const { return (spec.heads + spec.key_heads + g) * spec.width; }
  void turn(Index block, float sign, float* panel) const {
    loops.attention.rotate(spec.width / 2, rotary + block * panel_angles(), sign, panel);
  }
  Index panel_angles() const { return spec.width / 2 * 2 * kRows; }
};

/// Some features of the rows of a sequence in activations.
template <typename Float>
struct Features {
  std::span<Float> activations;
  Index all;           ///< features of a row
  Index first, count;  ///< those that are meant
};

void read_panel(const Pass& pass, const SequenceRows& rows, const Features<const float>& from, Index block, float* to) {
  rows.for_each_part(block, from.all, from.first, [&](Index lane, Index at, Index count) {
    pass.loops.attention.copy(from.count, count, from.activations.data() + at, rows.width(), to + lane, kRows);
  });
}

void write_panel(const Pass& pass, const SequenceRows& rows, const Features<float>& to, Index block,
                 const float* from) {
  rows.for_each_part(block, to.all, to.first, [&](Index lane, Index at, Index count) {
    pass.loops.attention.copy(to.count, count, from + lane, kRows, to.activations.data() + at, rows.width());
  });
}

/// A panel: in the activations themselves, or copied to `room`, where it is turned.
const float* panel_of(const Pass& pass, const SequenceRows& rows, const Features<const float>& from, bool turned,
                      Index block, float* room) {
  const bool turns = turned && pass.rotary != nullptr;
  if (rows.aligned() && !turns)
    return from.activations.data() + rows.at(from.all, from.first) + block * from.all * kRows;
  read_panel(pass, rows, from, block, room);
  if (turns) pass.turn(block, 1, room);
  return room;
}

/// All panels of a head, in the same way.
Panels<const float> panels_of(const Pass& pass, const SequenceRows& rows, const Features<const float>& from,
                              bool turned, float* room) {
  const float* const first = panel_of(pass, rows, from, turned, 0, room);
  if (first != room) return {first, from.all * kRows};
  for (Index block = 1; block < pass.blocks(); ++block) {
    panel_of(pass, rows, from, turned, block, room + block * pass.panel());
  }
  return {room, pass.panel()};
}

void multiply(const Loops& loops, const ProductShape& shape, const float* a, const float* b, float* c) {
  loops.product(shape, &a, &b, 1, nullptr, c, nullptr);
}

/// C = [C +] Σ over blocks of A B, of panels B[n][k] and tiles A[k][m]. The last block may have fewer rows.
struct BlockSum {
  const Loops& loops;
  Index m, n;
  Index ldc = kRows;

  void operator()(const SequenceRows& rows, Index first, Index last, const float* tiles,
                  const Panels<const float>& panels, bool accumulate, float* c) const {
    std::array<const float*, kRun> a{}, b{};
    Index full = 0;
    for (Index block = first; block < last && rows.size(block) == kRows; ++block, ++full) {
      a[static_cast<std::size_t>(full)] = tiles + full * kTile;
      b[static_cast<std::size_t>(full)] = panels[block];
    }
    ProductShape shape{.m = m, .n = n, .k = kRows, .lda = kRows, .ldb = kRows, .ldc = ldc, .accumulate = accumulate};
    if (full > 0) loops.product(shape, a.data(), b.data(), full, nullptr, c, nullptr);
    if (first + full == last) return;
    shape.k = rows.size(first + full);
    shape.accumulate = accumulate || full > 0;
    multiply(loops, shape, tiles + full * kTile, panels[first + full], c);
  }
};

/// Sets the lanes of activations that hold no example to zero.
void clear_unused(const Lanes& lanes, Index features, MutableView y) {
  for (Index block = 0; block < lanes.blocks; ++block) {
    const Index used = lanes.used(block);
    if (used == lanes.width) continue;
    float* const first = y.data() + block * features * lanes.width;
    for (Index i = 0; i < features; ++i) std::fill(first + i * lanes.width + used, first + (i + 1) * lanes.width, 0.0F);
  }
}

/// Factors of the mask of head h for rows [query, query + queries) and keys [key, key + keys), [queries][kRows].
void make_mask(const Pass& pass, Index sequence, Index h, Index query, Index queries, Index key, Index keys,
               float* mask) {
  const MaskKey& mask_key = pass.masks[static_cast<std::size_t>(sequence)];
  const Index rows = pass.spec.rows;
  for (Index i = 0; i < queries; ++i) {
    const auto first = static_cast<std::uint64_t>((h * rows + query + i) * rows + key);
    pass.loops.attention.mask(mask_key, first, keys, mask + i * kRows);
  }
}

// Forward

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
    pass_.loops.attention.scale(spec.width, queries(block), inverse, outputs_, outputs_);
    write_panel(pass_, rows_, {views_.y, spec.out().size(), pass_.query(h), spec.width}, block, outputs_);
    if (!views_.log_sums.empty()) {
      write_panel(pass_, rows_, {views_.log_sums, spec.heads, h, 1}, block, log_sums);
    }
  }

  const Pass& pass_;
  const ForwardViews& views_;
  Index sequence_;
  SequenceRows rows_;
  Panels<const float> k_{}, v_{};
  float *q_room_, *outputs_, *scores_, *mask_;
};

// Backward

struct BackwardViews {
  View x, y, log_sums, dy;
  MutableView dx;
};

/// Which part of a key head's gradients a thread computes.
struct BackwardPart {
  Index first_key = 0, key_step = 1;      ///< blocks of keys
  Index first_query = 0, query_step = 1;  ///< blocks of queries
  bool keys = true, queries = true;       ///< dK and dV, dQ
};

/// A key head of a sequence, with the query heads that read it.
class BackwardHead {
 public:
  /// Floats of scratch memory: q, k, v, dy, dk, dv; dq and a block of keys, transposed; a panel; row sums; scores.
  static Index scratch(const Pass& pass) {
    return (6 * pass.blocks() + 1) * pass.panel() + (pass.blocks() + 1) * kRows * depth(pass) +
           2 * pass.blocks() * kRows + 3 * kRun * kTile;
  }

  BackwardHead(const Pass& pass, const BackwardViews& views, Index sequence, Index g, const BackwardPart& part,
               float* scratch)
      : pass_(pass),
        views_(views),
        part_(part),
        sequence_(sequence),
        g_(g),
        rows_(pass.lanes, sequence, pass.spec.rows),
        q_room_(scratch),
        dy_room_(q_room_ + head_size()),
        dk_(dy_room_ + head_size()),
        dv_(dk_ + head_size()),
        panel_(dv_ + head_size()),
        dq_(panel_ + pass.panel()),
        transposed_key_(dq_ + pass.blocks() * kRows * depth(pass)),
        log_sums_(transposed_key_ + kRows * depth(pass)),
        dots_(log_sums_ + pass.blocks() * kRows),
        scores_(dots_ + pass.blocks() * kRows),
        gradients_(scores_ + kRun * kTile),
        mask_(gradients_ + kRun * kTile) {
    float* const k_room = mask_ + kRun * kTile;
    k_ = panels_of(pass, rows_, input(pass.key(g)), true, k_room);
    v_ = panels_of(pass, rows_, input(pass.value(g)), false, k_room + head_size());
  }

  void run() {
    const Index group = pass_.spec.heads / pass_.spec.key_heads;
    for (Index h = g_ * group; h < (g_ + 1) * group; ++h) {
      read_head(h);
      for (Index j = part_.first_key; j < pass_.blocks(); j += part_.key_step) add_keys(h, j, h > g_ * group);
      if (part_.queries) write_queries(h);
    }
    if (part_.keys) write_keys();
  }

 private:
  /// Blocks of queries [first, last) that see block `key`; `diagonal`: the first one is that block.
  struct Run {
    Index key, first, last;
    bool diagonal;
    Index full() const { return diagonal ? first + 1 : first; }
  };

  /// Floats between the rows of dq and of the transposed keys.
  static Index depth(const Pass& pass) { return Lanes::round_up(pass.spec.width); }
  Index head_size() const { return pass_.blocks() * pass_.panel(); }
  Index features() const { return pass_.spec.in().size(); }
  Features<const float> input(Index feature) const { return {views_.x, features(), feature, pass_.spec.width}; }
  Features<float> gradient(Index feature) const { return {views_.dx, features(), feature, pass_.spec.width}; }
  Index keys(Index block) const { return Lanes::round_up(rows_.size(block)); }

  /// The queries of a head, its outputs' gradients, and what is known of each row.
  void read_head(Index h) {
    const Index width = pass_.spec.width, out = pass_.spec.out().size();
    q_ = panels_of(pass_, rows_, input(pass_.query(h)), true, q_room_);
    dy_ = panels_of(pass_, rows_, {views_.dy, out, pass_.query(h), width}, false, dy_room_);
    for (Index block = 0; block < pass_.blocks(); ++block) {
      read_panel(pass_, rows_, {views_.log_sums, pass_.spec.heads, h, 1}, block, log_sums_ + block * kRows);
      const float* const y = panel_of(pass_, rows_, {views_.y, out, pass_.query(h), width}, false, block, panel_);
      pass_.loops.attention.dots(width, kRows, y, dy_[block], dots_ + block * kRows);
    }
  }

  /// What block j of keys has to do with all queries that see it.
  void add_keys(Index h, Index j, bool accumulate) {
    pass_.loops.transpose(pass_.spec.width, rows_.size(j), k_[j], kRows, transposed_key_, depth(pass_));
    const Index step = part_.query_step, least = pass_.spec.causal ? j : 0;
    const Index begin = part_.first_query + (std::max<Index>(0, least - part_.first_query) + step - 1) / step * step;
    const Index most = step == 1 ? kRun : 1;
    for (Index first = begin; first < pass_.blocks(); first += most * step) {
      const Run run{j, first, std::min(first + most, pass_.blocks()), pass_.spec.causal && first == j};
      score(run);
      make_gradients(run, h);
      if (part_.keys) add_key_gradients(run, accumulate || first > begin);
      if (part_.queries) add_query_gradients(run);
    }
  }

  /// S[query][key] = Q Kᵀ, and dP[query][key] = dY Vᵀ
  void score(const Run& run) const {
    ProductShape shape{.k = pass_.spec.width, .lda = kRows, .ldb = kRows, .ldc = kRows, .transposed = true};
    for (Index i = run.first; i < run.last; ++i) {
      const bool diagonal = i < run.full();
      const Index rows = rows_.size(i), group = diagonal ? kGroup : kRows;
      for (Index query = 0; query < rows; query += group) {
        const Index at = (i - run.first) * kTile + query * kRows;
        shape.m = diagonal ? query + kGroup : keys(run.key);
        shape.n = std::min(group, rows - query);
        multiply(pass_.loops, shape, k_[run.key], q_[i] + query, scores_ + at);
        multiply(pass_.loops, shape, v_[run.key], dy_[i] + query, gradients_ + at);
      }
    }
  }

  /// Scores become probabilities, gradients of probabilities those of scores.
  void make_gradients(const Run& run, Index h) const {
    for (Index i = run.first; i < run.last; ++i) {
      const Index at = (i - run.first) * kTile, queries = rows_.size(i);
      float* const mask = pass_.masks.empty() ? nullptr : mask_ + at;
      if (mask != nullptr) {
        make_mask(pass_, sequence_, h, i * kRows, queries, run.key * kRows, rows_.size(run.key), mask);
      }
      pass_.loops.attention.gradients({queries, keys(run.key), i < run.full(), pass_.factor(), pass_.scale()},
                                      log_sums_ + i * kRows, dots_ + i * kRows, mask, scores_ + at, gradients_ + at);
    }
  }

  /// dV[d][key] (+)= Pᵀ dY, dK[d][key] (+)= dSᵀ Q
  void add_key_gradients(const Run& run, bool accumulate) const {
    float *const dv = dv_ + run.key * pass_.panel(), *const dk = dk_ + run.key * pass_.panel();
    if (run.diagonal) {
      for (Index key = 0; key < keys(run.key); key += kGroup) {
        const ProductShape shape{.m = kGroup,
                                 .n = pass_.spec.width,
                                 .k = rows_.size(run.key) - key,
                                 .lda = kRows,
                                 .ldb = kRows,
                                 .ldc = kRows,
                                 .accumulate = accumulate};
        const Index at = key * kRows + key;
        multiply(pass_.loops, shape, scores_ + at, dy_[run.key] + key, dv + key);
        multiply(pass_.loops, shape, gradients_ + at, q_[run.key] + key, dk + key);
      }
    }
    const BlockSum sum{pass_.loops, keys(run.key), pass_.spec.width};
    const Index skipped = (run.full() - run.first) * kTile;
    sum(rows_, run.full(), run.last, scores_ + skipped, dy_, accumulate || run.diagonal, dv);
    sum(rows_, run.full(), run.last, gradients_ + skipped, q_, accumulate || run.diagonal, dk);
  }

  /// dQ[query][d] (+)= dS K
  void add_query_gradients(const Run& run) const {
    const Index stride = depth(pass_);
    ProductShape shape{.m = pass_.spec.width, .lda = stride, .ldb = kRows, .ldc = stride, .accumulate = run.key > 0};
    for (Index i = run.first; i < run.last; ++i) {
      const bool diagonal = i < run.full();
      const Index rows = rows_.size(i), group = diagonal ? kGroup : kRows;
      for (Index query = 0; query < rows; query += group) {
        shape.n = std::min(group, rows - query);
        shape.k = std::min(rows_.size(run.key), diagonal ? query + kGroup : kRows);
        multiply(pass_.loops, shape, transposed_key_, gradients_ + (i - run.first) * kTile + query * kRows,
                 dq_ + (i * kRows + query) * stride);
      }
    }
  }

  void write_queries(Index h) const {
    for (Index i = part_.first_query; i < pass_.blocks(); i += part_.query_step) {
      pass_.loops.transpose(rows_.size(i), pass_.spec.width, dq_ + i * kRows * depth(pass_), depth(pass_), panel_,
                            kRows);
      if (pass_.rotary != nullptr) pass_.turn(i, -1, panel_);
      write_panel(pass_, rows_, gradient(pass_.query(h)), i, panel_);
    }
  }

  void write_keys() const {
    for (Index j = part_.first_key; j < pass_.blocks(); j += part_.key_step) {
      float* const dk = dk_ + j * pass_.panel();
      if (pass_.rotary != nullptr) pass_.turn(j, -1, dk);
      write_panel(pass_, rows_, gradient(pass_.key(g_)), j, dk);
      write_panel(pass_, rows_, gradient(pass_.value(g_)), j, dv_ + j * pass_.panel());
    }
  }

  const Pass& pass_;
  const BackwardViews& views_;
  const BackwardPart part_;
  Index sequence_, g_;
  SequenceRows rows_;
  Panels<const float> q_{}, k_{}, v_{}, dy_{};
  float *q_room_, *dy_room_, *dk_, *dv_, *panel_, *dq_, *transposed_key_, *log_sums_, *dots_, *scores_, *gradients_,
      *mask_;
};

/// Into how many parts each key head's blocks are divided, so that all threads have about equal work.
Index parts_of_heads(Index heads, Index blocks, int threads) {
  if (heads % threads == 0 || heads >= 4 * threads) return 1;
  return std::clamp<Index>((4 * threads + heads - 1) / heads, 1, blocks);
}

/// Backward, parts cost the scores twice: 7 products for 5. They are worth it where whole heads take longer.
bool parts_are_faster(Index heads, Index blocks, int threads) {
  const Index rounds = (heads + threads - 1) / threads;
  return blocks > 1 && 5.0 * static_cast<double>(rounds * threads) > 7.5 * static_cast<double>(heads);
}

std::vector<MaskKey> mask_keys(const DropoutKey& key, std::span<const std::uint64_t> examples) {
  std::vector<MaskKey> keys;
  if (key.rate == 0) return keys;
  for (std::uint64_t example : examples) {
    keys.push_back({.key = stream_key(key.seed ^ (std::uint64_t{key.layer} << 32), Purpose::dropout),
                    .epoch = key.epoch,
                    .threshold = static_cast<std::uint32_t>(std::ceil(std::ldexp(key.rate, 24))),
                    .example_low = static_cast<std::uint32_t>(example),
                    .example_high = static_cast<std::uint32_t>(example >> 32),
                    .scale = 1.0F / (1.0F - key.rate)});
  }
  return keys;
}

}  // namespace

/// Cosines and sines of the angles of rotary positions, [block][D/2][2][64 rows], made once for each shape.
const float* CpuBackend::rotary_table(const AttentionSpec& spec) {
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
  assert(spec.heads % spec.key_heads == 0);
  const std::vector<MaskKey> masks = mask_keys(dropout, examples);
  const Pass pass{loops_, spec, Lanes(batch * spec.rows), rotary_table(spec), masks};
  const ForwardViews views{x, y, log_sums};
  const Index heads = batch * spec.key_heads, group = spec.heads / spec.key_heads;
  const Index parts = parts_of_heads(heads, pass.blocks(), settings_.threads), size = ForwardHead::scratch(pass);
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

void CpuBackend::attention_backward(const AttentionSpec& spec, Index batch, View x, View y, View log_sums,
                                    const DropoutKey& dropout, std::span<const std::uint64_t> examples, View dy,
                                    MutableView dx) {
  const std::vector<MaskKey> masks = mask_keys(dropout, examples);
  const Pass pass{loops_, spec, Lanes(batch * spec.rows), rotary_table(spec), masks};
  const BackwardViews views{x, y, log_sums, dy, dx};
  const Index heads = batch * spec.key_heads, size = BackwardHead::scratch(pass);
  const bool divided = parts_are_faster(heads, pass.blocks(), settings_.threads);
  const Index parts = divided ? parts_of_heads(heads, pass.blocks(), settings_.threads) : 1;
  float* const scratch = packed_.floats(size * settings_.threads);
  const auto run = [&](const auto& part_of) {
    parallel_ranges(settings_.threads, heads * parts, [&](Index first, Index last, int thread) {
      for (Index task = first; task < last; ++task) {
        const Index head = task / parts;
        BackwardHead(pass, views, head / spec.key_heads, head % spec.key_heads, part_of(task % parts),
                     scratch + thread * size)
            .run();
      }
    });
  };
  if (!divided) {
    run([](Index) { return BackwardPart{}; });
  } else {
    run([&](Index part) { return BackwardPart{.first_key = part, .key_step = parts, .queries = false}; });
    run([&](Index part) { return BackwardPart{.first_query = part, .query_step = parts, .keys = false}; });
  }
  clear_unused(pass.lanes, spec.in().size(), dx);
}

}  // namespace unisono::kernels::cpu
