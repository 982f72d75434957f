// PowerSGD: each weight matrix is sent as a product of two thin ones (Vogels, Karimireddy & Jaggi, NeurIPS 2019).
//     for each compressed block, as a matrix of [outputs × the rest]:
//     M_r ← g_r + residual_r                     g_r: this rank's part of the mean gradient
//     L ← orthonormal columns of Σ_r M_r R       R [columns × rank]: of the step before (warm start), its columns
//                                                made orthonormal, so that no small one is lost in rounding
//     R_r ← M_rᵀ L;  residual_r ← M_r − L R_rᵀ
//     R ← Σ_r R_r;  g ← L Rᵀ = L Lᵀ Σ_r M_r
//   So g + Σ_r residual_r = Σ_r (g_r + the residuals before) up to rounding. A column of R that has become 0, as it
//   does where a gradient is 0, is drawn anew: it would stay 0. Blocks that are no longer than their factors, biases,
//   norms and chosen blocks go exactly. During the warm-up all do, and on one rank there is nothing to send.
// Cost per step and rank: two allreduces of 4 rank (rows + columns) bytes for each block together, the exact floats in
// the first. Flops: 8 rank for each compressed float. They follow the backward pass, for L needs all ranks' M.
// Memory: the residual and R, 8N bytes.
#include <algorithm>
#include <cmath>
#include <utility>

#include "unisono/base/random.hpp"
#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/parallel/counters.hpp"
#include "unisono/parallel/replica.hpp"

namespace unisono::parallel {
namespace {

/// A block as a matrix [rows × columns], and where its factors are.
struct Matrix {
  const Block* block;
  Index rows, columns;
  MutableView values;      ///< row-major: those of the residual, to which the gradient is added
  MutableView left_part;   ///< [rank][rows], among all left factors
  MutableView right_part;  ///< [rank][columns], likewise

  FloatRange row(Index i) const { return {i * columns, (i + 1) * columns}; }
  MutableView left(Index column) const { return part(left_part, {column * rows, (column + 1) * rows}); }
  MutableView right(Index column) const { return part(right_part, {column * columns, (column + 1) * columns}); }
};

/// Makes `count` columns, which lie one after the other, orthogonal (modified Gram-Schmidt, twice for each, which
/// suffices to rounding), and of length 1; columns that depend on those before become 0.
void orthonormalise(kernels::VectorKernels& backend, MutableView columns, Index count) {
  constexpr double kLeast = 1e-6;  // of the length before, about the rounding of the subtractions
  const Index length = std::ssize(columns) / count;
  const auto at = [&](Index column) { return part(columns, {column * length, (column + 1) * length}); };
  for (Index column = 0; column < count; ++column) {
    const MutableView own = at(column);
    const double before = std::sqrt(backend.squared_norm(own));
    for (int time = 0; time < 2; ++time) {
      for (Index other = 0; other < column; ++other) {
        const auto along = static_cast<float>(backend.dot(own, at(other)));
        backend.axpby(-along, at(other), 1, own);
      }
    }
    const double after = std::sqrt(backend.squared_norm(own));
    const bool depends = after <= kLeast * before;  // false for NaN, which is to be seen
    backend.axpby(depends ? 0.0F : static_cast<float>(1 / after), own, 0, own);
  }
}

class PowerSgd final : public GradientExchange {
 public:
  PowerSgd(StepTerms& run, const CompressionSettings& settings);

  GradientTarget target(const MicroBatchPlace& place) override {
    GradientTarget target = plain_->target(place);
    if (!is_plain() || settings_.clip_norm != 0) target.ready = {};
    return target;
  }
  void finish() override;
  BlockedSeconds blocked() const override {
    BlockedSeconds blocked = plain_->blocked();
    blocked.communication += communication_seconds_;
    return blocked;
  }

 private:
  bool is_plain() const { return run_.communicator.size() == 1 || step_ < settings_.warmup_steps; }
  void make_matrices(const std::vector<bool>& chosen);
  void take_residual();
  void exchange();
  void load(Matrix& matrix);
  void multiply_right(const Matrix& matrix);
  void multiply_left(Matrix& matrix);
  void store_product(Matrix& matrix);
  void add_product(const Matrix& matrix, float factor, MutableView to);
  void keep_alive(const Matrix& matrix, std::uint32_t number);
  void allreduce(std::span<float> values);
  void count(bool plain);

  StepTerms& run_;
  const CompressionSettings settings_;
  CompressedBlocks blocks_;
  std::unique_ptr<GradientExchange> plain_;
  MutableView residual_, kept_right_;  ///< like g; R of a block is where the block is
  std::vector<Matrix> matrices_;
  Buffer left_, right_;  ///< of all matrices; behind the left factors are the exact blocks
  std::int64_t step_, sums_of_factors_ = 0;
  double communication_seconds_ = 0;
};

Index rows_of(const Block& block) { return block.shape.front(); }
Index columns_of(const Block& block) { return block.size() / std::max<Index>(1, rows_of(block)); }

/// Whether the numbers of an output lie together, in any order, one output behind the other.
bool is_stored_by_rows(const Block& block) {
  return block.stride == 0 && (block.axes.empty() || block.axes.front() == 0);
}

/// Those that are stored by rows, and longer than their factors.
std::vector<bool> choose_blocks(const ParameterLayout& layout, const CompressionSettings& settings) {
  std::vector<bool> chosen = blocks_to_compress(layout, settings.exact);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Block& block = layout.blocks()[i];
    chosen[i] = chosen[i] && !block.frozen && is_stored_by_rows(block) &&
                settings.rank * (rows_of(block) + columns_of(block)) < block.size();
  }
  return chosen;
}

PowerSgd::PowerSgd(StepTerms& run, const CompressionSettings& settings)
    : run_(run),
      settings_(settings),
      plain_(make_bucketed_sum(run.communicator, run.gradient, run.bucket_bytes, run.runtime)),
      residual_(run.vectors[0].values.view()),
      kept_right_(run.vectors[1].values.view()),
      step_(run.first_step) {
  const std::vector<bool> chosen = choose_blocks(run.replica.layout(), settings);
  blocks_ = divide_blocks(run.replica.layout(), chosen);
  make_matrices(chosen);
  run.counters.of<CompressionCounters>() = {};
}

void PowerSgd::make_matrices(const std::vector<bool>& chosen) {
  const auto& blocks = run_.replica.layout().blocks();
  const auto for_each_chosen = [&](const auto& work) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i]) work(blocks[i]);
    }
  };
  const FactorSizes sizes = factor_sizes(run_.replica.layout(), settings_);
  left_ = Buffer(sizes.left + sizes.exact, run_.communicator.shared_allocator());
  right_ = Buffer(sizes.right, run_.communicator.shared_allocator());
  Index left = 0, right = 0;
  const auto take = [](Buffer& buffer, Index& first, Index size) {
    first += size;
    return part(buffer.view(), {first - size, first});
  };
  for_each_chosen([&](const Block& block) {
    const Index rows = rows_of(block), columns = columns_of(block);
    matrices_.push_back({.block = &block,
                         .rows = rows,
                         .columns = columns,
                         .values = part(residual_, block),
                         .left_part = take(left_, left, settings_.rank * rows),
                         .right_part = take(right_, right, settings_.rank * columns)});
  });
}

void PowerSgd::finish() {
  if (settings_.clip_norm > 0) clip_own_gradient(run_, settings_.clip_norm);
  const bool plain = is_plain();
  if (plain) {
    take_residual();
    plain_->finish();
  } else {
    exchange();
  }
  count(plain);
  ++step_;
}

/// A run that had more ranks has left a residual: one rank takes all of it.
void PowerSgd::take_residual() {
  if (run_.communicator.size() > 1) return;  // the warm-up, before which there is none
  if (std::ranges::all_of(residual_, [](float value) { return value == 0; })) return;
  run_.backend.axpby(1, residual_, 1, run_.gradient);
  run_.backend.clear(residual_);
}

void PowerSgd::exchange() {
  std::uint32_t number = 0;
  for (Matrix& matrix : matrices_) {
    load(matrix);
    keep_alive(matrix, number++);
    multiply_right(matrix);
  }
  const MutableView exact = left_.view().last(static_cast<std::size_t>(size_of(blocks_.exact)));
  pack(run_.gradient, blocks_.exact, exact);
  allreduce(left_.view());
  unpack(exact, blocks_.exact, run_.gradient);

  for (Matrix& matrix : matrices_) {
    orthonormalise(run_.backend, matrix.left_part, settings_.rank);
    multiply_left(matrix);
  }
  allreduce(right_.view());
  for (Matrix& matrix : matrices_) store_product(matrix);
}

/// M ← g + residual
void PowerSgd::load(Matrix& matrix) {
  run_.backend.axpby(1, part(View(run_.gradient), *matrix.block), 1, matrix.values);
  const MutableView kept = part(kept_right_, *matrix.block);
  std::ranges::copy(kept.first(matrix.right_part.size()), matrix.right_part.begin());
  orthonormalise(run_.backend, matrix.right_part, settings_.rank);
}

/// Draws the columns of R that are 0.
void PowerSgd::keep_alive(const Matrix& matrix, std::uint32_t number) {
  for (Index column = 0; column < settings_.rank; ++column) {
    const MutableView right = matrix.right(column);
    if (std::ranges::any_of(right, [](float value) { return value != 0; })) continue;
    RandomStream random(0, Purpose::compression, static_cast<std::uint64_t>(step_),
                        number * static_cast<std::uint32_t>(settings_.rank) + static_cast<std::uint32_t>(column));
    for (float& value : right) value = random.normal();
  }
}

/// L ← M R
void PowerSgd::multiply_right(const Matrix& matrix) {
  for (Index i = 0; i < matrix.rows; ++i) {
    const View row = part(View(matrix.values), matrix.row(i));
    for (Index column = 0; column < settings_.rank; ++column) {
      matrix.left(column)[static_cast<std::size_t>(i)] =
          static_cast<float>(run_.backend.dot(row, matrix.right(column)));
    }
  }
}

/// R_r ← M_rᵀ L;  residual_r ← M_r − L R_rᵀ
void PowerSgd::multiply_left(Matrix& matrix) {
  std::ranges::fill(matrix.right_part, 0.0F);
  for (Index i = 0; i < matrix.rows; ++i) {
    const View row = part(View(matrix.values), matrix.row(i));
    for (Index column = 0; column < settings_.rank; ++column) {
      run_.backend.axpby(matrix.left(column)[static_cast<std::size_t>(i)], row, 1, matrix.right(column));
    }
  }
  add_product(matrix, -1, matrix.values);
}

/// g ← L Rᵀ; R is kept for the next step.
void PowerSgd::store_product(Matrix& matrix) {
  const MutableView gradient = part(run_.gradient, *matrix.block);
  std::ranges::fill(gradient, 0.0F);
  add_product(matrix, 1, gradient);
  std::ranges::copy(matrix.right_part, part(kept_right_, *matrix.block).begin());
}

/// to ← to + factor L Rᵀ
void PowerSgd::add_product(const Matrix& matrix, float factor, MutableView to) {
  for (Index i = 0; i < matrix.rows; ++i) {
    const MutableView row = part(to, matrix.row(i));
    for (Index column = 0; column < settings_.rank; ++column) {
      run_.backend.axpby(factor * matrix.left(column)[static_cast<std::size_t>(i)], matrix.right(column), 1, row);
    }
  }
}

void PowerSgd::allreduce(std::span<float> values) {
  const ScopedTimer timer(communication_seconds_, run_.runtime);
  run_.communicator.allreduce_sum(values);
  sums_of_factors_ += plain_sum_bytes(std::ssize(values), run_.communicator.size());
}

void PowerSgd::count(bool plain) {
  const std::int64_t all = plain_sum_bytes(std::ssize(run_.gradient), run_.communicator.size());
  auto& counters = run_.counters.of<CompressionCounters>();
  counters.sent_bytes += plain ? all : std::exchange(sums_of_factors_, 0);
  counters.plain_bytes += all;
}

}  // namespace

FactorSizes factor_sizes(const ParameterLayout& layout, const CompressionSettings& settings) {
  const std::vector<bool> chosen = choose_blocks(layout, settings);
  FactorSizes sizes{.exact = size_of(divide_blocks(layout, chosen).exact)};
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (!chosen[i]) continue;
    const Block& block = layout.blocks()[i];
    sizes.left += settings.rank * rows_of(block);
    sizes.right += settings.rank * columns_of(block);
    sizes.compressed += block.size();
  }
  return sizes;
}

std::unique_ptr<GradientExchange> make_power_sgd(StepTerms& run, const CompressionSettings& settings) {
  return std::make_unique<PowerSgd>(run, settings);
}

}  // namespace unisono::parallel
