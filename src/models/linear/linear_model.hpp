#pragma once

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "unisono/kernels/in_place.hpp"
#include "unisono/kernels/linear.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/models/objective.hpp"
#include "unisono/tensor/allocator.hpp"
#include "unisono/tensor/features.hpp"

namespace unisono::models {

class LinearScratch final : public Scratch {
 public:
  RowLocks::Set rows;
  std::vector<float> targets;
};

/// In θ; null for a negative offset.
inline float* pointer_at(Index offset, MutableView values) { return offset < 0 ? nullptr : values.data() + offset; }

/// Memory beside the rows of sets, in which kernels keep what they find out on the first visit (see LinearStep).
/// Threads may ask for it at the same time, each for a set of its own or all for one.
class VisitMemory {
 public:
  /// For these rows: `count` zeros when asked for the first time. \return null where there are too many sets
  template <typename Kept>
  Kept* of(const SparseRows& rows, std::size_t count) {
    const std::uint32_t* const key = rows.columns.data();
    for (Piece& piece : pieces_) {
      const std::uint32_t* const known = piece.key.load(std::memory_order_acquire);
      if (known == key) return static_cast<Kept*>(piece.memory.get());
      if (known == nullptr) break;
    }
    return static_cast<Kept*>(allocate(key, (count + 1) * sizeof(Kept)));
  }

 private:
  static constexpr std::size_t kMostSets = 256;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Piece {
    std::atomic<const std::uint32_t*> key{nullptr};
    std::unique_ptr<void, Free> memory;
  };

  void* allocate(const std::uint32_t* key, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (Piece& piece : pieces_) {
      const std::uint32_t* const known = piece.key.load(std::memory_order_relaxed);
      if (known == key) return piece.memory.get();
      if (known != nullptr) continue;
      // Zeros that take memory only where they are written: by the threads that train on these rows.
      piece.memory.reset(std::calloc(bytes, 1));
      if (!piece.memory) throw std::bad_alloc();
      ask_for_huge_pages(piece.memory.get(), bytes);
      piece.key.store(key, std::memory_order_release);
      return piece.memory.get();
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::array<Piece, kMostSets> pieces_;
};

/// y = x · w + b on sparse rows or on tables: logistic regression, linear support vector machines, least squares,
/// softmax regression.
///   Objective: mean of ℓ(z, y) over the examples + l1 Σ|w| + l2/2 Σ w²; the bias has no penalty.
///   In place, an example applies the penalty only to the weights of its features, multiplied by n/n_j to make up for
///   the other examples (see LinearStep; n_j of n examples have feature j).
///   Averaged SGD: Polyak & Juditsky, SIAM J. Control Optim. 30(4), 1992.
class LinearModel final : public Model, public InPlace, public ByFeatures, public Convex {
 public:
  /// \throws ConfigError if the loss does not suit the data
  LinearModel(const LinearSettings& settings, const ModelInputs& inputs, const ModelContext& context);

  const InPlace* in_place() const override { return this; }
  Convex* convex() override { return this; }
  void require_gradient() const override;
  bool takes_weights() const override { return true; }
  const ParameterLayout& layout() const override { return layout_; }
  const ParameterLayout& statistics_layout() const override { return statistics_; }
  void initialise(std::uint64_t seed, ModelState state) const override;

  void loss_and_gradient(const data::Batch& batch, float scale, ModelState state, const GradientTarget& target,
                         kernels::LossSums& sums) override;
  double penalty(View parameters) const override;
  void evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) override;
  void evaluate_predictions(const data::Batch& batch, ModelState state, kernels::LossSums& sums,
                            PredictionReader& reader) override;
  void predict(const data::Batch& batch, ModelState state, MutableView outputs) override;
  Index output_size() const override { return loss_ == Kind::squared ? 1 : classes_; }
  Prediction prediction() const override {
    return loss_ == Kind::squared ? Prediction::values
           : gives_margins()      ? Prediction::margins
                                  : Prediction::probabilities;
  }

  void require_smooth() const override;
  std::vector<PenalisedRange> penalties() const override;
  bool loss_vanishes_at_infinity() const override { return loss_ == Kind::logistic || loss_ == Kind::softmax; }
  void add_data_gradient(const data::Batch& batch, float scale, View parameters, MutableView gradient,
                         kernels::LossSums& sums) override;
  double hessian_cost(double row_values) const override;
  void add_hessian(const data::Batch& batch, float scale, View parameters, MutableView matrix) override;
  void add_hessian_product(const data::Batch& batch, float scale, View parameters, View v,
                           MutableView product) override;
  Index pass_bytes(Index batch) const override;
  void begin_set() override { passes_->begin_set(); }
  Index kept_bytes(Index examples, double row_values) const override;

  std::unique_ptr<Scratch> make_scratch() const override;
  void update_in_place(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step, Scratch& scratch,
                       kernels::LossSums& sums) const override;
  void mark_rows(const data::Batch& batch, data::ExampleRange range, Scratch& scratch,
                 TouchedRows& touched) const override;
  bool needs_every_update() const override { return settings_.averaged; }
  std::vector<RowSpace> row_spaces() const override;
  /// The tables "features" and "bias"; with averaged SGD, the averaged weights.
  std::vector<VectorTable> vectors(View parameters) const override;
  RowMerging usual_merge() const override { return RowMerging::mean; }

  const ByFeatures* by_features() const override { return loss_ == Kind::softmax ? nullptr : this; }
  Index mini_batch() const override { return settings_.mini_batch; }
  std::vector<Index> divide_features(const data::Batch& batch, int parts) const override;
  std::vector<std::uint64_t> first_values(const data::Batch& batch, Index feature) const override;
  void part_margins(const data::Batch& batch, data::ExampleRange range, const FeatureShare& share,
                    MutableView parameters, Scratch& scratch, MutableView margins) const override;
  void step_on_part(const data::Batch& batch, data::ExampleRange range, const FeatureShare& share,
                    const InPlaceStep& step, View margins, Scratch& scratch, kernels::LossSums* sums) const override;

  std::vector<Metric> metrics(const kernels::LossSums& sums) const override;
  std::vector<LayerSummary> summary(Index batch) const override;
  double flops_per_example() const override;
  Index workspace_bytes(Index batch) const override;

 private:
  enum class Kind { logistic, hinge, squared_hinge, squared, softmax };
  static Kind kind_of(LinearLoss loss, const ModelInputs& inputs);
  void declare();
  void prepare_penalties(const ModelContext& context);
  void prepare_bits(const ModelContext& context);

  /// Some examples of a batch, of sparse rows or of a table.
  struct ExampleSlice {
    const SparseRows* rows = nullptr;  ///< null: a table
    View values = {};                  ///< table: [count, features]
    View targets = {};                 ///< sparse: of all rows; table: of these examples
    View weights = {};                 ///< parallel to `targets`; empty: all are 1
    Index first = 0, count = 0;
  };
  ExampleSlice part_of(const data::Batch& batch, data::ExampleRange range, std::vector<float>& targets) const;
  void update(const ExampleSlice& part, const InPlaceStep& step, std::int64_t examples_before,
              kernels::LossSums& sums) const;
  void mark(const ExampleSlice& part, TouchedRows& touched) const;
  ExampleSlice mini_batch_of(const ExampleSlice& part, Index i) const;
  template <typename Visit>
  void for_each_feature(const ExampleSlice& part, Visit visit) const;
  /// Meters a mini-batch and takes the locks of its rows, if the step asks for these.
  std::optional<RowLocks::Guard> enter(const ExampleSlice& one, const InPlaceStep& step, RowLocks::Set& rows) const;
  void note_updates(MutableView parameters, std::int64_t updates) const;

  /// The bits of rows for steps on them; null: their indices are read.
  kernels::RowBits* bits_of(const SparseRows* rows, const InPlaceStep& step) const;
  kernels::LinearStep linear_step(const ExampleSlice& part, const InPlaceStep& step,
                                  std::int64_t examples_before) const;
  kernels::LinearRows kernel_rows(const ExampleSlice& part) const;
  /// Offsets in θ of weights, or of their sums; −1: there are none.
  struct Place {
    Index weights = -1, bias = -1;
  };
  kernels::LinearWeights margin_weights(Place at, MutableView parameters) const;
  kernels::SoftmaxWeights softmax_weights(Place at, MutableView parameters) const;
  /// z of every example of a batch. \return [B, 1] or [B, K]
  std::vector<float> margins(const data::Batch& batch, Place at, MutableView parameters) const;
  /// The same with the weights or, with averaged SGD, with the averaged weights.
  std::vector<float> mean_margins(const data::Batch& batch, MutableView parameters) const;
  /// The factor in w̄ = w + share · u (see LinearStep); 0 if nothing was averaged.
  float share_of_sums(View parameters) const;
  /// Adds the losses of margins to `sums`. Overwrites `margins` with probabilities, where there are several.
  void score(View targets, std::vector<float>& margins, kernels::LossSums& sums) const;
  /// The outputs of `predict` that follow from the margin of an example of two classes. \param outputs [2]
  void predict_two(float margin, float* outputs) const;
  /// Calls visit(examples) for the batch's examples: once, or for each of its ranges.
  template <typename Visit>
  void visit_examples(const data::Batch& batch, Visit visit) const;
  kernels::LinearLossSpec loss_spec() const;
  void add_penalty_gradient(float share, View parameters, MutableView gradient) const;
  bool gives_margins() const { return loss_ == Kind::hinge || loss_ == Kind::squared_hinge; }
  Index outputs() const { return loss_ == Kind::softmax ? classes_ : 1; }
  kernels::MarginLoss margin_loss() const;
  void make_spreads(const ModelContext& context);
  const float* spreads() const;
  bool penalised() const { return settings_.l1 > 0 || settings_.l2 > 0; }

  LinearSettings settings_;
  Kind loss_;
  double row_values_;  ///< non-zeros of a row, on average
  Index features_, classes_;
  Index width_;  ///< of a row of weights: 1, or K rounded up
  std::unique_ptr<kernels::InPlaceKernels> kernels_;
  std::unique_ptr<kernels::LinearPasses> passes_;
  ParameterLayout layout_, statistics_;
  Place weights_, sums_;  ///< sums_: the vector u of averaged SGD
  Index updates_ = -1;    ///< offset in θ of averaged SGD's number of updates; -1: not averaged
  // s_j, factors of the penalty by feature. Without counts, all are 1, and made when they are first needed: a model
  // that is only asked what it would take has none.
  mutable std::once_flag spread_made_;
  mutable std::vector<float> spread_;
  std::unique_ptr<VisitMemory> value_spreads_, row_bits_;  ///< see LinearStep; null: the kernels keep none
  Index kept_bytes_ = 0;                                   ///< that they will take
};

}  // namespace unisono::models
