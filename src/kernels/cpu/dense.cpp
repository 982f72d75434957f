// Dense layers. In a block, x is a matrix [in][lane] and y one [units][lane]; W is [units][in], `in` in the order of
// activations. Lanes are the M of each product, except for the weights' gradient, which sums over them.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <numeric>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"
#include "cpu/product_sums.hpp"

namespace unisono::kernels::cpu {
namespace {

// What is read again and again should stay in the first or second level of cache.
constexpr Index kForwardDepth = 2048;             ///< inputs that are summed at a time: 512 KiB of x
constexpr Index kWeightsAtOnce = Index{1} << 16;  ///< 256 KiB of W, for all blocks of the batch
constexpr Index kPanel = 64;                      ///< columns of W whose gradients are computed at a time
constexpr Index kUnitsAtOnce = 24;
constexpr Index kKeptWeights = Index{1} << 24;  ///< 64 MiB: of more weights, no second copy is kept for few examples
/// 8 MiB: of so many weights, no cache keeps the gradient until the update; reading their lines first would be in vain.
constexpr Index kStreamedWeights = Index{1} << 21;

struct Dense {
  Lanes lanes;
  Index in, units;

  Dense(const DenseSpec& spec, Index batch) : lanes(batch), in(spec.in.size()), units(spec.units) {}

  const float* x(View view, Index block) const { return view.data() + block * in * lanes.width; }
  template <typename Float>
  Float* y(std::span<Float> view, Index block) const {
    return view.data() + block * units * lanes.width;
  }
};

/// Whether a product of large matrices, where the device has one, is faster than products of parts. This depends on the
/// layer alone, so that an example's results do not depend on the batch.
bool is_large(const Dense& dense) {
  constexpr Index kLeast = 32, kLeastWeights = Index{1} << 14;
  return std::min(dense.in, dense.units) >= kLeast && dense.in * dense.units >= kLeastWeights;
}

/// Whether the weights' gradient is written past the caches.
bool is_streamed(const Dense& dense, View dw) {
  const bool at_lines =
      dense.in % Lanes::kVector == 0 && reinterpret_cast<std::uintptr_t>(dw.data()) % kAlignmentBytes == 0;
  return at_lines && dense.in * dense.units >= kStreamedWeights;
}

/// Lets other threads see what this one has streamed.
void finish_streams() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

/// The same as forward_units, data_inputs and dense_backward_weights below, by products of large matrices.
void large_forward(const Loops& loops, const Dense& dense, const DenseSpec& spec, View x, View w, View b, MutableView y,
                   Index first, Index end) {
  const Index width = dense.lanes.width, in = dense.in;
  const MatrixShape shape{.m = width,
                          .n = end - first,
                          .k = in,
                          .a = {1, width},
                          .b = {1, in},
                          .ldc = width,
                          .relu = spec.activation == Activation::relu};
  for (Index block = 0; block < dense.lanes.blocks; ++block) {
    loops.matrix_product(shape, dense.x(x, block), w.data() + first * in, b.empty() ? nullptr : b.data() + first,
                         dense.y(y, block) + first * width);
  }
}

void large_data(const Loops& loops, const Dense& dense, View w, View dy, MutableView dx, Index first, Index end) {
  const Index width = dense.lanes.width, in = dense.in;
  const MatrixShape shape{.m = width, .n = end - first, .k = dense.units, .a = {1, width}, .b = {in, 1}, .ldc = width};
  for (Index block = 0; block < dense.lanes.blocks; ++block) {
    loops.matrix_product(shape, dense.y(dy, block), w.data() + first, nullptr,
                         dx.data() + (block * in + first) * width);
  }
}

void large_weights(const Loops& loops, const Dense& dense, View x, View dy, MutableView dw, Write write, Index first,
                   Index end) {
  const Index width = dense.lanes.width, in = dense.in;
  for (Index block = 0; block < dense.lanes.blocks; ++block) {
    const MatrixShape shape{.m = in,
                            .n = end - first,
                            .k = width,
                            .a = {width, 1},
                            .b = {1, width},
                            .ldc = in,
                            .accumulate = block > 0 || write == Write::add};
    loops.matrix_product(shape, dense.x(x, block), dense.y(dy, block) + first * width, nullptr, dw.data() + first * in);
  }
}

/// y of units [first, end), for all blocks.
void forward_units(const Loops& loops, const Dense& dense, const DenseSpec& spec, View x, View w, View b, MutableView y,
                   Index first, Index end) {
  const Index width = dense.lanes.width, in = dense.in;
  const Index parts = (in + kForwardDepth - 1) / kForwardDepth;
  for (Index block = 0; block < dense.lanes.blocks; ++block) {
    for (Index part = 0; part < parts; ++part) {
      const Index from = in * part / parts, to = in * (part + 1) / parts;
      const bool last = part + 1 == parts;
      const ProductShape shape{.m = width,
                               .n = end - first,
                               .k = to - from,
                               .lda = width,
                               .ldb = in,
                               .ldc = width,
                               .accumulate = part > 0,
                               .relu = last && spec.activation == Activation::relu};
      const float* left = dense.x(x, block) + from * width;
      const float* right = w.data() + first * in + from;
      loops.product(shape, &left, &right, 1, last && !b.empty() ? b.data() + first : nullptr,
                    dense.y(y, block) + first * width, nullptr);
    }
  }
}

/// How many rows of W are summed for dx at a time. The next columns need the same cache lines of these rows again; a
/// row stride that is a multiple of a large power of two maps these lines to few sets of the second-level cache.
Index data_depth(Index in) {
  constexpr Index kSets = 2048, kLine = Lanes::kVector, kPlaces = 8;
  const Index sets = kSets / std::gcd(kSets, std::max<Index>(1, in / kLine));
  return std::clamp<Index>(sets * kPlaces, 32, 128);
}

/// dx of inputs [first, end): Σ over slices of W's rows of dyᵀ W.
void data_inputs(const Loops& loops, const Dense& dense, View w, View dy, MutableView dx, Index first, Index end) {
  const Index width = dense.lanes.width, depth = data_depth(dense.in);
  for (Index unit = 0; unit < dense.units; unit += depth) {
    const ProductShape shape{.m = width,
                             .n = end - first,
                             .k = std::min(depth, dense.units - unit),
                             .lda = width,
                             .ldb = dense.in,
                             .ldc = width,
                             .transposed = true,
                             .accumulate = unit > 0};
    for (Index block = 0; block < dense.lanes.blocks; ++block) {
      const float* left = dense.y(dy, block) + unit * width;
      const float* right = w.data() + unit * dense.in + first;
      loops.product(shape, &left, &right, 1, nullptr, dx.data() + (block * dense.in + first) * width, nullptr);
    }
  }
}

constexpr Index kLargeColumns = 48;  ///< of a product of large matrices, which copies the whole first matrix

/// Calls work(first, last) on parts of the columns of a product; but for the last one, they are multiples of `tile`.
template <typename Work>
void parallel_columns(int threads, Index columns, Index tile, const Work& work) {
  parallel_ranges(threads, (columns + tile - 1) / tile, [&](Index first, Index last, int) {
    if (first < last) work(first * tile, std::min(last * tile, columns));
  });
}

/// The products of the weights' gradient: dW of some units and a panel of inputs, summed over the blocks. On one
/// thread.
class PanelProducts {
 public:
  /// \param transposed xᵀ as [panel][block][lane][kPanel]
  PanelProducts(const Loops& loops, const Dense& dense, const float* transposed, View dy)
      : loops_(loops), dense_(dense), transposed_(transposed), dy_(dy), pairs_(dense.lanes.blocks) {}

  /// See ProductShape.
  struct Options {
    bool accumulate = false, streams = false;
  };
  /// \param to [units][in] of units from `unit` on
  void compute(Index panel, Index unit, Index units, float* to, const Options& options, Ahead* ahead) {
    const Index width = dense_.lanes.width, blocks = dense_.lanes.blocks, first = panel * kPanel;
    pairs_.clear();
    for (Index block = 0; block < blocks; ++block) {
      pairs_.add(transposed_ + (panel * blocks + block) * width * kPanel, dense_.y(dy_, block) + unit * width);
    }
    const ProductShape shape{.m = std::min(kPanel, dense_.in - first),
                             .n = units,
                             .k = blocks == 1 ? dense_.lanes.batch : width,  // lanes with an example
                             .lda = kPanel,
                             .ldb = width,
                             .ldc = dense_.in,
                             .accumulate = options.accumulate,
                             .streams = options.streams};
    loops_.product(shape, pairs_.a.data(), pairs_.b.data(), blocks, nullptr, to + first, ahead);
  }

 private:
  const Loops& loops_;
  const Dense& dense_;
  const float* transposed_;
  View dy_;
  Pairs pairs_;
};

/// out [size][width] = the rows of `values`, [examples][size], and zeros in the lanes without an example.
void set_examples(const Loops& loops, Index examples, Index size, const float* values, Index stride, float* out,
                  Index width) {
  std::fill_n(out, size * width, 0.0F);
  loops.transpose(examples, size, values, stride, out, width);
}

}  // namespace

void CpuBackend::dense_forward(const DenseSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const Dense dense(spec, batch);
  const View from = in_layout(Innermost::examples, spec.in, batch, x, x_copy_);
  assert(static_cast<Index>(w.size()) == dense.units * dense.in);
  assert(b.empty() || static_cast<Index>(b.size()) == dense.units);
  if (loops_.matrix_product != nullptr && is_large(dense)) {
    return parallel_columns(settings_.threads, dense.units, kLargeColumns, [&](Index first, Index end) {
      large_forward(loops_, dense, spec, from, w, b, y, first, end);
    });
  }
  if (fixed_ && batch <= Lanes::kNarrow && dense.in * dense.units <= kKeptWeights) {
    return dense_forward_of_few(spec, batch, from, w, b, y);
  }
  if (batch > 0 && batch <= FewExamplesLoops::kMost) return dense_forward_of_few_rows(spec, batch, from, w, b, y);
  const Index tile = std::max<Index>(1, kWeightsAtOnce / dense.in / kTileColumns) * kTileColumns;
  parallel_columns(settings_.threads, dense.units, kTileColumns, [&](Index first, Index end) {
    for (Index unit = first; unit < end; unit += tile) {
      forward_units(loops_of(dense.lanes), dense, spec, from, w, b, y, unit, std::min(unit + tile, end));
    }
  });
}

/// The same sums in the same order for few examples, where weights are fixed: a transposed copy of W lets vectors hold
/// units, of which there are enough to fill them, so that each weight is read once and multiplied with no empty lane.
void CpuBackend::dense_forward_of_few(const DenseSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const Dense dense(spec, batch);
  const Index width = dense.lanes.width, in = dense.in, units = dense.units, panels = (units + kPanel - 1) / kPanel;
  const auto size_of = [&](Index panel) { return std::min(kPanel, units - panel * kPanel); };
  const float* const transposed = prepared(w, panels * in * kPanel, nullptr, [&](float* to) {  // [panel][in][kPanel]
    parallel_for(settings_.threads, panels, [&](Index panel) {
      loops_.transpose(size_of(panel), in, w.data() + panel * kPanel * in, in, to + panel * in * kPanel, kPanel);
    });
  });
  float* const sums = packed_.floats(panels * kPanel * Lanes::kNarrow);  // [panel][example][kPanel]
  parallel_for(settings_.threads, panels, [&](Index panel) {
    const ProductShape shape{.m = size_of(panel),
                             .n = batch,
                             .k = in,
                             .lda = kPanel,
                             .ldb = width,
                             .ldc = kPanel,
                             .transposed = true,
                             .relu = spec.activation == Activation::relu,
                             .bias_of_rows = true};
    const float* const left = transposed + panel * in * kPanel;
    const float* const right = x.data();
    float* const sum = sums + panel * kPanel * Lanes::kNarrow;
    float* const out = y.data() + panel * kPanel * width;
    loops_.product(shape, &left, &right, 1, b.empty() ? nullptr : b.data() + panel * kPanel, sum, nullptr);
    set_examples(loops_, batch, shape.m, sum, kPanel, out, width);
  });
}

/// The same outputs for very few examples, with W as it is: tiles of it are transposed in registers.
void CpuBackend::dense_forward_of_few_rows(const DenseSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const Dense dense(spec, batch);
  const Index width = dense.lanes.width, units = dense.units;
  float* const outputs = packed_.floats(batch * units);  // [example][units]
  parallel_columns(settings_.threads, units, Lanes::kVector, [&](Index first, Index end) {
    const FewExamplesShape shape{.examples = batch,
                                 .units = end - first,
                                 .in = dense.in,
                                 .ldw = dense.in,
                                 .lanes = width,
                                 .ld = units,
                                 .relu = spec.activation == Activation::relu};
    loops_.few_examples.forward(shape, x.data(), w.data() + first * dense.in, b.empty() ? nullptr : b.data() + first,
                                outputs + first);
    set_examples(loops_, batch, end - first, outputs + first, units, y.data() + first * width, width);
  });
}

void CpuBackend::dense_backward(const DenseSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                                MutableView dx, MutableView dw, MutableView db, Write write) {
  mask_and_sum({spec.units, 1, 1}, batch, spec.activation == Activation::relu ? y : View{}, dy, db, write);
  if (!dx.empty()) {
    const MutableView to = room_in_layout(Innermost::examples, spec.in, batch, dx, dx_copy_);
    dense_backward_data(spec, batch, w, dy, to);
    settle(Innermost::examples, spec.in, batch, to, dx);
  }
  if (dw.empty()) return;
  dense_backward_weights(spec, batch, in_layout(Innermost::examples, spec.in, batch, x, x_copy_), dy, dw, write);
}

void CpuBackend::dense_backward_data(const DenseSpec& spec, Index batch, View w, View dy, MutableView dx) {
  const Dense dense(spec, batch);
  const bool large = loops_.matrix_product != nullptr && is_large(dense);
  if (!large && batch > 0 && batch <= FewExamplesLoops::kMost) {
    float* const outputs = packed_.floats(batch * dense.in);  // [example][in]
    return parallel_columns(settings_.threads, dense.in, kPanel, [&](Index first, Index end) {
      const FewExamplesShape shape{.examples = batch,
                                   .units = dense.units,
                                   .in = end - first,
                                   .ldw = dense.in,
                                   .lanes = dense.lanes.width,
                                   .ld = dense.in};
      loops_.few_examples.backward(shape, dy.data(), w.data() + first, outputs + first);
      set_examples(loops_, batch, end - first, outputs + first, dense.in, dx.data() + first * dense.lanes.width,
                   dense.lanes.width);
    });
  }
  parallel_columns(settings_.threads, dense.in, large ? kLargeColumns : kTileColumns, [&](Index first, Index end) {
    (large ? large_data : data_inputs)(loops_of(dense.lanes), dense, w, dy, dx, first, end);
  });
}

void CpuBackend::dense_backward_weights(const DenseSpec& spec, Index batch, View x, View dy, MutableView dw,
                                        Write write) {
  const Dense dense(spec, batch);
  if (loops_.matrix_product != nullptr && is_large(dense)) {
    return parallel_columns(settings_.threads, dense.units, kLargeColumns, [&](Index first, Index end) {
      large_weights(loops_, dense, x, dy, dw, write, first, end);
    });
  }
  const Index panels = (dense.in + kPanel - 1) / kPanel, slices = (dense.units + kUnitsAtOnce - 1) / kUnitsAtOnce;
  const float* const transposed = transposed_inputs(spec, batch, x);
  const bool streams = write == Write::overwrite && is_streamed(dense, dw);
  parallel_ranges(settings_.threads, slices * panels, [&](Index from, Index to, int) {
    PanelProducts products(loops_, dense, transposed, dy);
    for (Index i = from; i < to; ++i) {
      const Index unit = i / panels * kUnitsAtOnce;
      products.compute(i % panels, unit, std::min(kUnitsAtOnce, dense.units - unit), dw.data() + unit * dense.in,
                       {.accumulate = write == Write::add, .streams = streams}, nullptr);
    }
    if (streams) finish_streams();
  });
}

/// xᵀ as [panel][block][lane][kPanel]
const float* CpuBackend::transposed_inputs(const DenseSpec& spec, Index batch, View x) {
  const Dense dense(spec, batch);
  const Index width = dense.lanes.width, blocks = dense.lanes.blocks, panels = (dense.in + kPanel - 1) / kPanel;
  float* const transposed = packed_.floats(panels * blocks * width * kPanel);
  parallel_for(settings_.threads, panels * blocks, [&](Index i) {
    const Index panel = i / blocks, block = i % blocks, first = panel * kPanel;
    loops_.transpose(std::min(kPanel, dense.in - first), width, dense.x(x, block) + first * width, width,
                     transposed + i * width * kPanel, kPanel);
  });
  return transposed;
}

bool CpuBackend::has_dense_step(const DenseSpec& spec) const {
  return loops_.matrix_product == nullptr || !is_large(Dense(spec, 1));
}

namespace {

/// Some rows of a dense layer's weights, which are contiguous in θ.
struct StepRows {
  Index first, count;
};

constexpr Index kRowFloats = Index{1} << 15;  ///< 128 KiB of g, and as much of θ and of each state, in the second level

/// How many rows of W to compute before their step: results do not depend on it.
Index rows_at_once(const Dense& dense, int threads) {
  const Index tiles = std::max<Index>(1, kRowFloats / dense.in / kTileColumns);
  const Index shared = dense.units / (4 * threads) / kTileColumns;  // so that all threads have work
  return std::clamp<Index>(shared, 1, std::min(tiles, kUnitsAtOnce / kTileColumns)) * kTileColumns;
}

/// What is prefetched while the gradient of some rows is computed: θ and the first state of these rows.
Ahead rows_of_step(const Loops& loops, const Dense& dense, const StepRows& rows, Index first, const StepAtOnce& step) {
  const std::span<const float* const> vectors = step.vectors();
  const Index at = first + rows.first * dense.in, floats = rows.count * dense.in;
  const ProductShape all{.m = dense.in, .n = rows.count, .k = dense.lanes.width};
  const Index fetched = fetch_step(loops, all, dense.lanes.blocks, floats);
  return {vectors[0] + at, fetched, vectors[vectors.size() > 1 ? 1 : 0] + at, fetched};
}

/// The steps of few examples: whole rows of W, each from its gradient.
void step_of_few(const Loops& loops, int threads, const Dense& dense, View x, View dy, Index first,
                 const StepAtOnce& step, float* scratch) {
  const Index batch = dense.lanes.batch, in = dense.in, width = dense.lanes.width;
  float* const rows = scratch;  // x as [example][in]
  parallel_columns(threads, in, kPanel, [&](Index from, Index to) {
    loops.transpose(to - from, batch, x.data() + from * width, width, rows + from, in);
  });
  const FewExamplesShape shape{.examples = batch, .units = 1, .in = in, .lanes = width, .ld = in};
  parallel_ranges(threads, dense.units, [&](Index from, Index to, int thread) {
    float* const g = scratch + (batch + thread) * in;
    for (Index unit = from; unit < to; ++unit) {
      loops.few_examples.weights(shape, dy.data() + unit * width, rows, g);
      step.step(first + unit * in, in, g);
    }
  });
}

}  // namespace

void CpuBackend::dense_step(const DenseSpec& spec, Index batch, View x, View dy, Index first, const StepAtOnce& step) {
  const Dense dense(spec, batch);
  const View from = in_layout(Innermost::examples, spec.in, batch, x, x_copy_);
  if (batch > 0 && batch <= FewExamplesLoops::kMostWeights) {
    float* const scratch = packed_.floats((batch + settings_.threads) * dense.in);
    return step_of_few(loops_, settings_.threads, dense, from, dy, first, step, scratch);
  }
  const Index in = dense.in, panels = (in + kPanel - 1) / kPanel, at_once = rows_at_once(dense, settings_.threads);
  const float* const transposed = transposed_inputs(spec, batch, from);
  float* const gradients = partials_.floats(settings_.threads * at_once * in);
  parallel_ranges(settings_.threads, (dense.units + at_once - 1) / at_once, [&](Index begin, Index end, int thread) {
    PanelProducts products(loops_, dense, transposed, dy);
    float* const g = gradients + thread * at_once * in;  // [row][in]
    for (Index i = begin; i < end; ++i) {
      const StepRows rows{i * at_once, std::min(at_once, dense.units - i * at_once)};
      Ahead ahead = rows_of_step(loops_, dense, rows, first, step);
      for (Index panel = 0; panel < panels; ++panel) products.compute(panel, rows.first, rows.count, g, {}, &ahead);
      step.step(first + rows.first * in, rows.count * in, g);
    }
  });
}

}  // namespace unisono::kernels::cpu
