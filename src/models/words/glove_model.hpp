#pragma once

#include "in_place_model.hpp"
#include "unisono/models/factory.hpp"

namespace unisono::models {

/// Word vectors from co-occurrences: J = Σ f(x) (w_r · v_c + b_r + d_c − ln x)² / 2 by Adagrad; a word's vector is w +
/// v.
///   w ← w − s g / √G,  G ← G + g², G = 1/η² at the start; η: the learning rate; s: the scheduled rate divided by η.
///   The published program does the same, and stores η² G.
///   Pennington, Socher & Manning, EMNLP 2014.
class GloveModel final : public InPlaceModel {
 public:
  /// \throws ConfigError for a set other than co-occurrences, or an unsupported update rule
  GloveModel(const GloveSettings& settings, const ModelInputs& inputs, const ModelContext& context);

  void initialise(std::uint64_t seed, ModelState state) const override;
  void evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) override;
  Index output_size() const override { return dimension_; }

  std::unique_ptr<Scratch> make_scratch() const override;
  void update_in_place(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step, Scratch& scratch,
                       kernels::LossSums& sums) const override;
  void mark_rows(const data::Batch& batch, data::ExampleRange range, Scratch& scratch,
                 TouchedRows& touched) const override;
  std::vector<RowSpace> row_spaces() const override;
  std::vector<VectorTable> vectors(View parameters) const override;

  std::vector<LayerSummary> summary(Index batch) const override;
  double flops_per_example() const override;

 private:
  Index declare(const std::string& name);
  kernels::GloveRows rows_at(Index offset, MutableView parameters) const {
    return {.weights = {.values = parameters.data() + offset, .stride = 2 * width_, .width = width_},
            .dimension = dimension_};
  }

  GloveSettings settings_;
  Index words_, dimension_, width_;
  double learning_rate_;
  Index word_rows_ = 0, context_rows_ = 0;  ///< offsets in θ
};

}  // namespace unisono::models
