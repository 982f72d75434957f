#pragma once

#include <optional>

#include "in_place_model.hpp"
#include "unisono/models/factory.hpp"
#include "words/windows.hpp"

namespace unisono::models {

/// Word vectors from text: skip-gram and continuous bag of words, with negative sampling or hierarchical softmax.
///   Mikolov, Sutskever, Chen, Corrado & Dean, NIPS 2013; Mikolov, Chen, Corrado & Dean, ICLR workshop 2013. Windows
///   share their negatives, some at a time: Ji et al., "Parallelizing word2vec in shared and distributed memory", 2016.
/// An example is a word of the text. The loss is the mean of −ln σ over pairs of a word and an output: of all windows
/// in evaluation, of every 64th in training.
class Word2vecModel final : public InPlaceModel {
 public:
  /// \throws ConfigError for a set other than text, or an unsupported update rule
  Word2vecModel(const Word2vecSettings& settings, const ModelInputs& inputs, const ModelContext& context);

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
  /// \param every_loss the loss is computed for one window out of so many
  void train_on(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step, Scratch& scratch,
                std::size_t every_loss, kernels::LossSums& sums) const;
  /// Calls visit(window) for each window of these sentences as soon as it is drawn; a window stays valid until the next
  /// but one is drawn.
  template <typename Visit>
  void for_each_window(const data::Batch& batch, data::ExampleRange range, Scratch& scratch, Visit visit) const;
  /// \param next is trained on after this one, so its rows are prefetched; may be null
  void train_on_window(const Window& window, const Window* next, const InPlaceStep& step, RowLocks::Set& locked,
                       bool want_loss, kernels::InPlaceSums& sums) const;
  kernels::RowMatrix matrix(Index offset, MutableView parameters) const {
    return {.values = parameters.data() + offset, .stride = width_, .width = width_};
  }

  Word2vecSettings settings_;
  std::uint64_t seed_;
  Index words_, dimension_, width_;
  bool cbow_;
  std::optional<WindowSampler> sampler_;  ///< none if the model is only applied
  Index inputs_ = 0, outputs_ = 0;        ///< offsets of the rows in θ
};

}  // namespace unisono::models
