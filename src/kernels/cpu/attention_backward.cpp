// The backward pass of attention; attention.cpp has the formulas.
//
// A thread takes a key head with all query heads that read it, so that their shares of dK and dV are added in order.
// Where there are too few of them for the threads, it takes a part of the key blocks for dK and dV, and after that a
// part of the query blocks for dQ. Then scores and their gradients are computed twice, and all sums are the same.
#include "cpu/attention.hpp"
#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {
namespace attention {
namespace {

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
        dk_room_(dy_room_ + head_size()),
        dv_room_(dk_room_ + head_size()),
        panel_(dv_room_ + head_size()),
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
      pass_.loops.attention.dots(width, y, dy_[block], dots_ + block * kRows);
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
    float *const dk = key_gradient(run.key), *const dv = value_gradient(run.key);
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

  float* key_gradient(Index block) const {
    return result_panel(pass_, rows_, gradient(pass_.key(g_)), true, block, dk_room_ + block * pass_.panel());
  }
  float* value_gradient(Index block) const {
    return result_panel(pass_, rows_, gradient(pass_.value(g_)), false, block, dv_room_ + block * pass_.panel());
  }

  void write_queries(Index h) const {
    const Features<float> dq = gradient(pass_.query(h));
    for (Index i = part_.first_query; i < pass_.blocks(); i += part_.query_step) {
      float* const panel = result_panel(pass_, rows_, dq, true, i, panel_);
      pass_.loops.transpose(rows_.size(i), pass_.spec.width, dq_ + i * kRows * depth(pass_), depth(pass_), panel,
                            kRows);
      finish_panel(pass_, rows_, dq, true, i, panel);
    }
  }

  void write_keys() const {
    for (Index j = part_.first_key; j < pass_.blocks(); j += part_.key_step) {
      finish_panel(pass_, rows_, gradient(pass_.key(g_)), true, j, key_gradient(j));
      finish_panel(pass_, rows_, gradient(pass_.value(g_)), false, j, value_gradient(j));
    }
  }

  const Pass& pass_;
  const BackwardViews& views_;
  const BackwardPart part_;
  Index sequence_, g_;
  SequenceRows rows_;
  Panels q_{}, k_{}, v_{}, dy_{};
  float *q_room_, *dy_room_, *dk_room_, *dv_room_, *panel_, *dq_, *transposed_key_, *log_sums_, *dots_, *scores_,
      *gradients_, *mask_;
};

/// Backward, parts cost the scores twice: 7 products for 5. They are worth it where whole heads take longer.
bool parts_are_faster(Index heads, Index blocks, int threads) {
  const Index rounds = (heads + threads - 1) / threads;
  return blocks > 1 && 5.0 * static_cast<double>(rounds * threads) > 7.5 * static_cast<double>(heads);
}

}  // namespace
}  // namespace attention

void CpuBackend::attention_backward(const AttentionSpec& spec, Index batch, View x, View y, View log_sums,
                                    const DropoutKey& dropout, std::span<const std::uint64_t> examples, View dy,
                                    MutableView dx) {
  using namespace attention;
  const std::vector<MaskKey> masks = mask_keys(dropout, examples);
  const Pass pass{loops_, spec, Lanes(batch * spec.rows), rotary_table(spec), masks};
  const BackwardViews views{x, y, log_sums, dy, dx};
  const Index heads = batch * spec.key_heads, size = BackwardHead::scratch(pass);
  const bool divided = parts_are_faster(heads, pass.blocks(), settings_.threads);
  const Index parts = divided ? parts_of(heads, pass.blocks(), settings_.threads) : 1;
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
