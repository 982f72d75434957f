#include <cassert>

#include "cpu/instruction_set.hpp"
#include "cpu/races.hpp"
#include "unisono/kernels/in_place.hpp"

namespace unisono::kernels {

namespace cpu {
namespace {

Index count(std::size_t size) { return static_cast<Index>(size); }

class CpuInPlaceKernels final : public InPlaceKernels {
 public:
  explicit CpuInPlaceKernels(InstructionSet set) : loops_(loops_for(set)), gathers_(set == InstructionSet::avx512) {}
  const char* name() const override { return loops_.name; }
  bool keeps_bits(Index features, double row_values) const override {
    // For each 16 features a mask costs about as much as an index does for each value.
    constexpr double kFeaturesOfMask = 16;
    return loops_.in_place.linear_bit_rows != nullptr && features <= kMostBitFeatures &&
           row_values * kFeaturesOfMask >= static_cast<double>(features);
  }
  bool keeps_spreads(Index features) const override { return gathers_ && features > kFarFeatures; }

  InPlaceSums linear(const SparseRows& rows, View targets, Index first, Index last, MarginLoss loss,
                     const LinearStep& step, const LinearWeights& weights) const override {
    assert(last <= count(targets.size()));
    InPlaceSums sums;
    sums.examples = last - first;
    assert(step.mini_batch >= 1 && step.mini_batch <= kMostMiniBatch);
    assert(step.row_bits == nullptr || (rows.values.empty() && step.mini_batch > 1 && step.l1 == 0));
    const auto loop = step.row_bits != nullptr ? loops_.in_place.linear_bit_rows
                      : step.mini_batch > 1    ? loops_.in_place.linear_sparse_batches
                                               : loops_.in_place.linear_sparse;
    loop(examples(rows, targets, first, last), {loss, step, weights}, sums);
    return sums;
  }

  InPlaceSums linear(View values, View targets, Index examples, Index features, MarginLoss loss, const LinearStep& step,
                     const LinearWeights& weights) const override {
    assert(count(values.size()) >= examples * features && count(targets.size()) >= examples);
    InPlaceSums sums;
    sums.examples = examples;
    loops_.in_place.linear_dense({values.data(), targets.data(), examples, features, features}, {loss, step, weights},
                                 sums);
    return sums;
  }

  void part_margins(const LinearRows& rows, const FeaturePart& part, const LinearWeights& weights,
                    MutableView margins) const override {
    assert(count(margins.size()) == rows.count());
    if (rows.sparse != nullptr) {
      const SparseExamples all = examples(*rows.sparse, {}, rows.first, rows.last);
      loops_.in_place.sparse_part_margins(all, {part.begins.data(), part.ends.data()}, weights, margins.data());
    } else {
      loops_.in_place.dense_part_margins(part_of(rows, part), weights_of(weights, part), margins.data());
    }
  }

  void moves(MarginLoss loss, View targets, View weights, float rate, View margins, MutableView moves,
             InPlaceSums* sums) const override {
    const StepTargets of{targets.data(), weights.empty() ? nullptr : weights.data(), rate, count(moves.size())};
    loops_.in_place.linear_moves(loss, of, margins.data(), moves.data());
    if (sums == nullptr) return;
    sums->examples += of.count;
    loops_.in_place.margin_sums(loss, of, margins.data(), *sums);
  }

  void part_steps(const LinearRows& rows, const FeaturePart& part, const LinearStep& step, const LinearWeights& weights,
                  View moves) const override {
    assert(count(moves.size()) == rows.count());
    constexpr MarginLoss any = MarginLoss::squared;  // the moves have it
    if (rows.sparse != nullptr) {
      const SparseExamples all = examples(*rows.sparse, {}, rows.first, rows.last);
      const ValueRanges parts{part.begins.data(), part.ends.data()};
      return loops_.in_place.sparse_part_steps(all, parts, {any, step, weights}, moves.data());
    }
    LinearStep own = step;
    if (own.spread != nullptr) own.spread += part.first;
    loops_.in_place.dense_part_steps(part_of(rows, part), {any, own, weights_of(weights, part)}, moves.data());
  }

  InPlaceSums softmax(const SparseRows& rows, View targets, Index first, Index last, const LinearStep& step,
                      const SoftmaxWeights& weights) const override {
    assert(last <= count(targets.size()));
    return softmax(examples(rows, targets, first, last), step, weights);
  }

  InPlaceSums softmax(View values, View targets, Index examples, Index features, const LinearStep& step,
                      const SoftmaxWeights& weights) const override {
    assert(count(values.size()) >= examples * features && count(targets.size()) >= examples);
    return softmax({nullptr, nullptr, values.data(), targets.data(), features, 0, examples}, step, weights);
  }

  void margins(const SparseRows& rows, Index first, Index last, const LinearWeights& weights,
               MutableView margins) const override {
    assert(count(margins.size()) == last - first);
    loops_.in_place.margins_sparse(examples(rows, {}, first, last), weights, margins.data());
  }

  void margins(const SparseRows& rows, Index first, Index last, const SoftmaxWeights& weights,
               MutableView margins) const override {
    assert(count(margins.size()) == (last - first) * weights.classes);
    Buffer scratch(weights.weights.width);
    loops_.in_place.softmax_margins(examples(rows, {}, first, last), weights, scratch.data(), margins.data());
  }

  InPlaceSums factorize(std::span<const SparseEntry> ratings, const FactorStep& step, const FactorRows& users,
                        const FactorRows& items) const override {
    assert(users.factors.width == items.factors.width && users.rank == items.rank);
    InPlaceSums sums;
    sums.examples = count(ratings.size());
    loops_.in_place.factorize(ratings.data(), sums.examples, step, users, items, sums);
    sums.loss = 0.5 * sums.squared_error;
    return sums;
  }

  void skip_gram(std::span<const std::int32_t> context, const OutputWords& outputs, float rate, const RowMatrix& inputs,
                 const RowMatrix& output_rows, bool want_loss, InPlaceSums& sums) const override {
    if (context.empty() || outputs.rows.empty()) return;
    const double loss = loops_.in_place.skip_gram(window(context, outputs, rate, want_loss), inputs, output_rows);
    if (!want_loss) return;
    sums.loss += loss;
    sums.examples += static_cast<std::int64_t>(context.size() * outputs.rows.size());
  }

  void cbow(std::span<const std::int32_t> context, const OutputWords& outputs, float rate, const RowMatrix& inputs,
            const RowMatrix& output_rows, bool want_loss, InPlaceSums& sums) const override {
    if (context.empty() || outputs.rows.empty()) return;
    const double loss = loops_.in_place.cbow(window(context, outputs, rate, want_loss), inputs, output_rows);
    if (!want_loss) return;
    sums.loss += loss;
    sums.examples += count(outputs.rows.size());
  }

  InPlaceSums glove(std::span<const SparseEntry> entries, const GloveStep& step, const GloveRows& words,
                    const GloveRows& contexts) const override {
    assert(words.weights.width == contexts.weights.width && words.dimension == contexts.dimension);
    assert(words.weights.width == (words.dimension + 16) / 16 * 16);
    InPlaceSums sums;
    sums.examples = count(entries.size());
    sums.loss = loops_.in_place.glove(entries.data(), sums.examples, step, words, contexts);
    return sums;
  }

 private:
  static SparseExamples examples(const SparseRows& rows, View targets, Index first, Index last) {
    assert(0 <= first && first <= last && last <= rows.rows());
    return {rows.offsets.data(),
            rows.columns.data(),
            rows.values.empty() ? nullptr : rows.values.data(),
            targets.data(),
            rows.width,
            first,
            last};
  }

  static DenseExamples part_of(const LinearRows& rows, const FeaturePart& part) {
    return {rows.values.data() + part.first, nullptr, rows.count(), part.last - part.first, rows.features};
  }
  static LinearWeights weights_of(LinearWeights weights, const FeaturePart& part) {
    weights.weights += part.first;
    if (weights.weight_sums != nullptr) weights.weight_sums += part.first;
    return weights;
  }

  InPlaceSums softmax(const SparseExamples& rows, const LinearStep& step, const SoftmaxWeights& weights) const {
    InPlaceSums sums;
    sums.examples = rows.last - rows.first;
    Buffer scratch(weights.weights.width);
    loops_.in_place.softmax(rows, {step, weights, scratch.data()}, sums);
    return sums;
  }

  static Window window(std::span<const std::int32_t> context, const OutputWords& outputs, float rate, bool want_loss) {
    assert(count(context.size()) <= kMaximumWindow && count(outputs.rows.size()) <= kMaximumOutputs);
    assert(outputs.targets.size() == outputs.rows.size());
    assert(count(outputs.next_context.size()) <= kMaximumWindow && count(outputs.next_rows.size()) <= kMaximumOutputs);
    return {context.data(),
            count(context.size()),
            outputs.rows.data(),
            outputs.targets.data(),
            count(outputs.rows.size()),
            rate,
            want_loss,
            outputs.next_context.data(),
            count(outputs.next_context.size()),
            outputs.next_rows.data(),
            count(outputs.next_rows.size())};
  }

  Loops loops_;
  bool gathers_;
};

}  // namespace

std::unique_ptr<InPlaceKernels> in_place_kernels_for(InstructionSet set) {
  return std::make_unique<CpuInPlaceKernels>(set);
}

}  // namespace cpu

std::unique_ptr<InPlaceKernels> make_in_place_kernels() {
  return cpu::in_place_kernels_for(cpu::chosen_instruction_set());
}

namespace cpu {
namespace {

FactorTable factors_of(const RowMatrix& table, Index rank) {
  return {.values = table.values, .stride = table.stride, .width = table.width, .rank = rank};
}

class CpuLeastSquares final : public LeastSquaresKernels {
 public:
  explicit CpuLeastSquares(InstructionSet set) : loops_(loops_for(set)) {}
  const char* name() const override { return loops_.name; }

  void solve(const RowMatrix& table, Index rank, const LeastSquaresTerms& terms, MutableView scratch,
             const LeastSquaresSolution& solution) const override {
    assert(terms.targets.size() == terms.rows.size() && terms.l2 > 0);
    assert(!terms.bias || (terms.weights.empty() && terms.gram.empty() && solution.bias != nullptr));
    assert(std::ssize(scratch) >= scratch_floats(table.width) && std::ssize(solution.factors) == table.width);
    const NormalEquations equations{.rows = terms.rows.data(),
                                    .targets = terms.targets.data(),
                                    .weights = terms.weights.empty() ? nullptr : terms.weights.data(),
                                    .count = std::ssize(terms.rows),
                                    .gram = terms.gram.empty() ? nullptr : terms.gram.data(),
                                    .l2 = terms.l2,
                                    .bias = terms.bias};
    loops_.least_squares.solve(factors_of(table, rank), equations, scratch.data(), solution.factors.data(),
                               solution.bias);
  }

  void add_gram(const RowMatrix& table, Index rank, Index first, Index last, MutableView gram) const override {
    assert(std::ssize(gram) >= gram_floats(table.width));
    loops_.least_squares.add_gram(factors_of(table, rank), first, last, gram.data());
  }

  void products(const RowMatrix& table, std::span<const std::uint32_t> rows, View p,
                MutableView products) const override {
    assert(std::ssize(p) == table.width && products.size() == rows.size());
    loops_.least_squares.products(factors_of(table, table.width), rows.data(), std::ssize(rows), p.data(),
                                  products.data());
  }

 private:
  Loops loops_;
};

}  // namespace

std::unique_ptr<LeastSquaresKernels> least_squares_kernels_for(InstructionSet set) {
  return std::make_unique<CpuLeastSquares>(set);
}

}  // namespace cpu

Index LeastSquaresKernels::scratch_floats(Index width) { return cpu::least_squares_scratch(width); }

std::unique_ptr<LeastSquaresKernels> make_least_squares_kernels() {
  return cpu::least_squares_kernels_for(cpu::chosen_instruction_set());
}

UNISONO_RACES_BY_DESIGN void read_shared(const float* shared, float* own, Index n) {
  for (Index i = 0; i < n; ++i) own[i] = shared[i];
}

UNISONO_RACES_BY_DESIGN void add_to_shared(const float* before, const float* after, float* shared, Index n) {
  for (Index i = 0; i < n; ++i) {
    const float now = shared[i];
    shared[i] = now == before[i] ? after[i] : now + (after[i] - before[i]);
  }
}

}  // namespace unisono::kernels
