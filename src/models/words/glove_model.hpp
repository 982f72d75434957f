#pragma once

#include "unisono/kernels/in_place.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/models/in_place.hpp"

namespace unisono {

/// Word vectors from co-occurrences: J = Σ f(x) (w_r · v_c + b_r + d_c − ln x)² / 2 by Adagrad; a word's vector is w +
/// v.
///   w ← w − s g / √G,  G ← G + g², G = 1/η² at the start; η: the learning rate; s: what the schedule makes of it, as a
///   share of η. So does the published program, which keeps η² G.
///   Pennington, Socher & Manning, EMNLP 2014.
class GloveModel final : public Model, public InPlace {
 public:
  /// \throws ConfigError for a set of something else than co-occurrences, or another update rule
  GloveModel(const GloveSettings& settings, const ModelInputs& inputs, const ModelContext& context);

  const InPlace* in_place() const override { return this; }
  void require_gradient() const override;
  const ParameterLayout& layout() const override { return layout_; }
  const ParameterLayout& statistics_layout() const override { return statistics_; }
  void initialise(std::uint64_t seed, ModelState state) const override;
  void loss_and_gradient(const Batch& batch, float scale, ModelState state, MutableView gradient, Write write,
                         const GradientReady& ready, LossSums& sums) override;
  void evaluate(const Batch& batch, ModelState state, LossSums& sums) override;
  void predict(const Batch& batch, ModelState state, MutableView outputs) override;
  Index output_size() const override { return dimension_; }

  std::unique_ptr<Scratch> make_scratch() const override;
  void update_in_place(const Batch& batch, ExampleRange range, const InPlaceStep& step, Scratch& scratch,
                       LossSums& sums) const override;
  std::vector<RowSpace> row_spaces() const override;
  std::vector<VectorTable> vectors() const override;

  std::vector<Metric> metrics(const LossSums& sums) const override;
  std::vector<LayerSummary> summary(Index batch) const override;
  double flops_per_example() const override;
  Index workspace_bytes(Index) const override { return 0; }

 private:
  Index declare(const std::string& name);
  GloveRows rows_at(Index offset, MutableView parameters) const {
    return {.weights = {.values = parameters.data() + offset, .stride = 2 * width_, .width = width_},
            .dimension = dimension_};
  }

  GloveSettings settings_;
  Index words_, dimension_, width_;
  double learning_rate_;
  std::unique_ptr<InPlaceKernels> kernels_;
  ParameterLayout layout_, statistics_;
  Index word_rows_ = 0, context_rows_ = 0;  ///< offsets in θ
};

}  // namespace unisono
