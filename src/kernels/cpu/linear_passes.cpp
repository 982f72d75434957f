// Passes of linear models over many examples, on several threads.
//
// Rows are cut into chunks, small enough to stay in a cache between the two loops: margins, then, after the losses of
// the chunk, what it adds to g. There are three ways to share this among threads, and the examples alone decide which:
//   rows:     few features. A fixed number of blocks of rows; each adds to a vector of its own, and g gets their sums
//             in the order of the blocks.
//   bits:     rows of ones and few features, as bit columns; blocks as for rows.
//   features: so many that clearing and adding such vectors would cost more than the examples. Each thread computes
//             the margins of some rows; then it adds all rows, in their order, to the features of its own range. On one
//             thread, too, this is faster than chunk by chunk: θ and g are not in the caches at once.
// Either way every g_j is the same sum in the same order, whatever the number of threads. A Hessian is shared by its
// rows, as features are.
#include "cpu/instruction_set.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "cpu/linear_chunks.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels {
namespace cpu {
namespace {

constexpr Index kMostBlocks = 32;             ///< of rows
constexpr Index kFewValues = 1 << 14;         ///< so few are not worth several threads
constexpr Index kFewPairs = 1 << 12;          ///< weights of θ and v, which then fit the first cache together
constexpr Index kFirstCache = 1 << 12;        ///< floats of contiguous rows that stay in it between the loops
constexpr Index kSecondCache = 1 << 15;       ///< the same for products of matrices, which take more rows at once
constexpr Index kValuesOfFeature = 16;        ///< a block of sparse rows has at least so many for each feature
constexpr Index kBlockValues = 1 << 16;       ///< of a block of contiguous rows, about
constexpr Index kMostVectorFloats = 1 << 25;  ///< of all blocks' vectors
constexpr Index kLeastRows = 32;              ///< a block of contiguous rows has at least so many

class CpuLinearPasses final : public LinearPasses {
 public:
  CpuLinearPasses(InstructionSet set, int threads) : chunks_(loops_for(set)), threads_(threads) {}

  void gradient(const LinearExamples& examples, const LinearLossSpec& loss, float scale,
                LinearVector<const float> theta, LinearVector<float> g, LossSums& sums) override {
    const PassSums added = run({.examples = examples,
                                .loss = loss,
                                .scale = scale,
                                .theta = theta,
                                .v = {},
                                .out = g,
                                .masks = masks_of(examples, loss)});
    sums.loss += added.loss[0];
    sums.examples += examples.count;
    sums.correct += added.correct;
    if (loss.classes > 0 || loss.margin != MarginLoss::squared) return;
    sums.squared_error += added.squared_error[0];
    sums.absolute_error += added.absolute_error[0];
    sums.values += examples.count;
  }

  void hessian_product(const LinearExamples& examples, const LinearLossSpec& loss, float scale,
                       LinearVector<const float> theta, LinearVector<const float> v,
                       LinearVector<float> product) override {
    PassWork work{examples, loss, scale, theta, v, product};
    work.masks = masks_of(examples, loss);
    if (!work.dense() && loss.classes == 0 && examples.features <= kFewPairs && !work.masks)
      work.pairs = pairs_of(work);
    run(work);
  }

  void hessian(const LinearExamples& examples, const LinearLossSpec& loss, float scale, LinearVector<const float> theta,
               const LinearHessian& hessian) override;

  Index most_floats(Index count, Index features, Index width) const override;
  void begin_set() override {
    bits_.reset();
    keeps_ = true;
  }
  Index kept_bytes(Index examples, Index features, double row_values) const override;

 private:
  PassSums run(const PassWork& work);
  PassSums by_rows(const PassWork& work, Index blocks);
  PassSums by_bits(const PassWork& work);
  PassSums by_features(const PassWork& work);
  void add_blocks(const PassWork& work, Index blocks, int threads);
  int threads_for(const PassWork& work) const { return work.values() < kFewValues ? 1 : threads_; }

  const float* pairs_of(const PassWork& work);
  const std::uint64_t* masks_of(const LinearExamples& examples, const LinearLossSpec& loss);

  LinearChunks chunks_;
  int threads_;
  Scratch vectors_, margins_, pairs_;
  bool keeps_ = false;  ///< whether what is made of a set may be kept between passes
  std::optional<BitColumns> bits_;
};

/// Of settled sums, in their order.
PassSums total(const std::vector<PassSums>& sums) {
  PassSums all;
  for (const PassSums& one : sums) {
    all.loss[0] += one.loss[0];
    all.slope[0] += one.slope[0];
    all.correct += one.correct;
    all.squared_error[0] += one.squared_error[0];
    all.absolute_error[0] += one.absolute_error[0];
  }
  return all;
}

/// \param floats of contiguous rows that stay in a cache
Index rows_within(Index floats, Index features, Index least) {
  return std::clamp<Index>(floats / std::max<Index>(1, features) / 16 * 16, least, kLossBlock);
}

/// Of contiguous rows. Each block has a vector of θ's size.
Index dense_blocks(Index count, Index features, Index width) {
  const Index rows = rows_within(kBlockValues, features, kLeastRows);
  const Index most = std::clamp<Index>(kMostVectorFloats / std::max<Index>(1, features * width), 1, kMostBlocks);
  return std::min(most, (count + rows - 1) / rows);
}

Index chunk_rows(const PassWork& work, Index floats) {
  return work.dense() ? rows_within(floats, work.examples.features, 16) : kLossBlock;
}

const float* CpuLinearPasses::pairs_of(const PassWork& work) {
  float* const pairs = pairs_.floats(2 * work.examples.features);
  for (Index j = 0; j < work.examples.features; ++j) {
    pairs[2 * j] = work.theta.weights[j];
    pairs[2 * j + 1] = work.v.weights[j];
  }
  return pairs;
}

/// Null: they are not faster, or must not be kept.
const std::uint64_t* CpuLinearPasses::masks_of(const LinearExamples& examples, const LinearLossSpec& loss) {
  if (!keeps_ || examples.rows == nullptr || loss.classes > 0 || !chunks_.has_bits()) return nullptr;
  if (!BitColumns::suit(*examples.rows)) return nullptr;
  if (!bits_ || !bits_->made_from(*examples.rows)) bits_.emplace(*examples.rows, threads_);
  return bits_->masks();
}

Index sparse_blocks(const PassWork& work) {
  const Index most = std::min(kMostBlocks, (work.examples.count + kLossBlock - 1) / kLossBlock);
  return std::min(most, work.values() / (kValuesOfFeature * std::max<Index>(1, work.examples.features)));
}

PassSums CpuLinearPasses::run(const PassWork& work) {
  if (work.examples.count == 0) return {};
  const Index blocks =
      work.dense() ? dense_blocks(work.examples.count, work.examples.features, work.width()) : sparse_blocks(work);
  PassSums sums;
  if (work.masks != nullptr) {
    sums = by_bits(work);
  } else if (work.dense() || blocks > 1) {
    sums = by_rows(work, blocks);
  } else {
    sums = by_features(work);
  }
  if (work.loss.classes == 0 && work.out.bias != nullptr) *work.out.bias += static_cast<float>(sums.slope[0]);
  return sums;
}

PassSums CpuLinearPasses::by_rows(const PassWork& work, Index blocks) {
  const Index width = work.width(), chunk = chunk_rows(work, work.loss.classes > 0 ? kSecondCache : kFirstCache);
  const Index size = (work.examples.features + 1) * width, stride = round_up_to_line(size);
  const int threads = threads_for(work);
  float* const vectors = vectors_.floats(blocks * stride);
  float* const margins = margins_.floats(threads * 2 * kLossBlock * width);
  std::vector<PassSums> sums(static_cast<std::size_t>(blocks));
  parallel_ranges(threads, blocks, [&](Index first_block, Index last_block, int thread) {
    Chunk memory{margins + thread * 2 * kLossBlock * width, margins + (thread * 2 + 1) * kLossBlock * width, {}};
    for (Index b = first_block; b < last_block; ++b) {
      float* const own = vectors + b * stride;
      std::fill_n(own, size, 0.0F);
      PassSums& added = sums[static_cast<std::size_t>(b)];
      const Index end = work.examples.count * (b + 1) / blocks;
      for (Index first = work.examples.count * b / blocks; first < end; first += chunk) {
        const Index last = std::min(first + chunk, end);
        const float* const d = chunks_.slopes(work, first, last, memory, added);
        chunks_.add(work, first, last, d, 0, work.examples.features, own);
        LinearChunks::add_bias(work, d, last - first, own + work.examples.features * width);
      }
      chunks_.settle(added);
    }
  });
  add_blocks(work, blocks, threads);
  return total(sums);
}

PassSums CpuLinearPasses::by_bits(const PassWork& work) {
  const Index blocks = bit_blocks(work), stride = round_up_to_line(work.examples.features + 1);
  const int threads = threads_for(work);
  float* const vectors = vectors_.floats(blocks * stride + threads * lane_floats(work.examples.features));
  const std::vector<PassSums> sums = pass_by_bits(chunks_, work, threads,
                                                  {.blocks = blocks,
                                                   .vectors = vectors,
                                                   .stride = stride,
                                                   .lanes = vectors + blocks * stride,
                                                   .margins = margins_.floats(threads * 2 * kLossBlock)});
  add_blocks(work, blocks, threads);
  return total(sums);
}

/// g += the blocks' vectors, in their order.
void CpuLinearPasses::add_blocks(const PassWork& work, Index blocks, int threads) {
  const Index width = work.width(), weights = work.examples.features * width;
  const Index stride = round_up_to_line(weights + width);
  const float* const vectors = vectors_.floats(0);
  const auto add_to = [&](float* to, Index first, Index last, Index from) {
    for (Index b = 0; b < blocks; ++b) {
      const float* const own = vectors + b * stride + from;
      for (Index i = first; i < last; ++i) to[i] += own[i];
    }
  };
  parallel_ranges(weights < kFewValues ? 1 : threads, (weights + 1023) / 1024, [&](Index first, Index last, int) {
    for (Index i = first; i < last; ++i) {
      add_to(work.out.weights, i * 1024, std::min(weights, (i + 1) * 1024), 0);
    }
  });
  if (work.loss.classes > 0 && work.out.bias != nullptr) add_to(work.out.bias, 0, width, weights);
}

/// Bounds of features that about as many of the rows' values have, by a sample of them.
std::vector<Index> equal_shares(const PassWork& work, int shares) {
  if (shares == 1) return {0, work.examples.features};
  std::vector<std::uint32_t> sample;
  const Index first = work.first_value(0), values = work.values();
  constexpr Index kSample = 2048;
  for (Index i = 0; i < std::min(values, kSample); ++i) {
    sample.push_back(
        work.examples.rows->columns[static_cast<std::size_t>(first + values * i / std::min(values, kSample))]);
  }
  std::sort(sample.begin(), sample.end());
  std::vector<Index> bounds{0};
  for (int i = 1; i < shares; ++i) {
    bounds.push_back(
        sample.empty() ? 0 : sample[sample.size() * static_cast<std::size_t>(i) / static_cast<std::size_t>(shares)]);
  }
  bounds.push_back(work.examples.features);
  return bounds;
}

PassSums CpuLinearPasses::by_features(const PassWork& work) {
  const Index width = work.width(), count = work.examples.count, chunks = (count + kLossBlock - 1) / kLossBlock;
  const int threads = threads_for(work);
  std::vector<PassSums> sums(static_cast<std::size_t>(chunks));
  std::vector<const float*> slopes(sums.size());
  const Index chunk_floats = kLossBlock * width;
  float* const margins = margins_.floats(chunks * 2 * chunk_floats);
  const auto visit = [&](Index chunk, auto with) {
    with(static_cast<std::size_t>(chunk), chunk * kLossBlock, std::min(count, (chunk + 1) * kLossBlock));
  };
  parallel_for(threads, chunks, [&](Index chunk) {
    Chunk memory{margins + chunk * 2 * chunk_floats, margins + (chunk * 2 + 1) * chunk_floats};
    visit(chunk, [&](std::size_t i, Index first, Index last) {
      slopes[i] = chunks_.slopes(work, first, last, memory, sums[i]);
      chunks_.settle(sums[i]);
    });
  });
  const std::vector<Index> bounds = equal_shares(work, threads);
  parallel_for(threads, threads, [&](Index share) {
    const Index low = bounds[static_cast<std::size_t>(share)], high = bounds[static_cast<std::size_t>(share) + 1];
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      visit(chunk, [&](std::size_t i, Index first, Index last) {
        if (low < high) chunks_.add(work, first, last, slopes[i], low, high, work.out.weights);
        if (share == 0) LinearChunks::add_bias(work, slopes[i], last - first, work.out.bias);
      });
    }
  });
  return total(sums);
}

Index CpuLinearPasses::most_floats(Index count, Index features, Index width) const {
  const Index vectors = dense_blocks(count, features, width) * round_up_to_line((features + 1) * width);
  return vectors + 2 * width * std::max<Index>(threads_ * kLossBlock, count) + 2 * kFewPairs;
}

Index CpuLinearPasses::kept_bytes(Index examples, Index features, double row_values) const {
  if (!chunks_.has_bits() || !BitColumns::suit(features, row_values)) return 0;
  return BitColumns::bytes(examples, features) + threads_ * lane_floats(features) * static_cast<Index>(sizeof(float));
}

constexpr Index kHessianRows = 32;  ///< that a thread adds to at once

void CpuLinearPasses::hessian(const LinearExamples& examples, const LinearLossSpec& loss, float scale,
                              LinearVector<const float> theta, const LinearHessian& hessian) {
  const PassWork work{examples, loss, scale, theta, {}, {}};
  const Index count = examples.count, features = examples.features, chunk = chunk_rows(work, kSecondCache);
  const Index chunks = (count + chunk - 1) / chunk;
  std::vector<PassSums> sums(static_cast<std::size_t>(chunks));
  float* const curvatures = margins_.floats(2 * chunks * chunk);
  const auto last_of = [&](Index first) { return std::min(count, first + chunk); };
  parallel_for(threads_for(work), chunks, [&](Index number) {
    float* const z = curvatures + (chunks + number) * chunk;
    Chunk memory{z, curvatures + number * chunk, {}};
    PassSums& added = sums[static_cast<std::size_t>(number)];
    chunks_.curvatures(work, number * chunk, last_of(number * chunk), memory, added);
    chunks_.settle(added);
  });
  const Index shares = threads_ == 1 && !work.dense() ? 1 : (features + kHessianRows - 1) / kHessianRows;
  float* const scaled = vectors_.floats(work.dense() ? threads_ * chunk * features : 0);
  parallel_ranges(threads_for(work), shares, [&](Index first_share, Index last_share, int thread) {
    for (Index i = first_share; i < last_share; ++i) {
      const Index share = i % 2 == 0 ? i / 2 : shares - 1 - i / 2;  // short and long rows in turn
      const Index low = features * share / shares, high = features * (share + 1) / shares;
      for (Index first = 0; first < count; first += chunk) {
        float* const own = work.dense() ? scaled + thread * chunk * features : nullptr;
        chunks_.add_outer(work, first, last_of(first), curvatures + first, low, high, hessian, own);
      }
    }
  });
  if (hessian.bias != nullptr) *hessian.bias_bias += static_cast<float>(total(sums).slope[0]);
}

}  // namespace

std::unique_ptr<LinearPasses> linear_passes_for(InstructionSet set, int threads) {
  return std::make_unique<CpuLinearPasses>(set, threads);
}

}  // namespace cpu

std::unique_ptr<LinearPasses> make_linear_passes(int threads) {
  return cpu::linear_passes_for(cpu::chosen_instruction_set(), threads);
}

}  // namespace unisono::kernels
