#pragma once

#include <array>
#include <vector>

#include "in_place_model.hpp"
#include "unisono/kernels/linear.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/models/objective.hpp"

namespace unisono::models {

/// Biased matrix factorization of explicit ratings: r̂ = mean + b_u + c_i + p_u · q_i, squared error. Penalties count
/// with each rating or, with l2_per, once for each row: each of its n ratings then applies 1/n of it.
///   Koren, Bell & Volinsky, "Matrix factorization techniques for recommender systems", Computer 42(8), 2009.
///   Plain SGD, or one Adagrad rate a row: Chin et al., PAKDD 2015; or alternating least squares.
/// With implicit feedback it predicts preferences, 0 or 1, and all pairs of users and items count.
class FactorizationModel final : public InPlaceModel, public Bipartite, public Alternating {
 public:
  /// \throws ConfigError for a set other than ratings, or an unsupported update rule
  FactorizationModel(const FactorizationSettings& settings, const ModelInputs& inputs, const ModelContext& context);

  void initialise(std::uint64_t seed, ModelState state) const override;
  void initialise_held(std::uint64_t seed, const HeldModel& held, ModelState state) const override;
  void evaluate(const data::Batch& batch, ModelState state, kernels::LossSums& sums) override;
  void predict(const data::Batch& batch, ModelState state, MutableView outputs) override;
  Index output_size() const override { return 1; }

  std::unique_ptr<Scratch> make_scratch() const override;
  void update_in_place(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step, Scratch& scratch,
                       kernels::LossSums& sums) const override;
  void mark_rows(const data::Batch& batch, data::ExampleRange range, Scratch& scratch,
                 TouchedRows& touched) const override;
  std::vector<RowSpace> row_spaces() const override;
  std::vector<VectorTable> vectors(View parameters) const override;

  const Bipartite* bipartite() const override { return this; }
  void update_part(data::SparseEntries entries, double rate, const TableParts& parts,
                   kernels::LossSums& sums) const override;
  void evaluate_part(data::SparseEntries entries, const TableParts& parts, kernels::LossSums& sums) const override;
  void initialise_rows(std::uint64_t seed, std::size_t space, RowSeries series, float* rows) const override;

  const Alternating* alternating() const override { return least_squares_ ? this : nullptr; }
  std::int64_t training_ratings() const override { return examples_; }
  bool adds_up_ratings() const override { return implicit(); }
  Index gram_floats() const override;
  void add_gram(std::size_t space, Index first, Index last, View parameters, MutableView gram) const override;
  double shared_loss(View row_gram, View column_gram) const override;
  std::unique_ptr<Scratch> make_solver() const override;
  void solve(const RatedRow& row, View gram, MutableView parameters, Scratch& scratch) const override;
  double solving_flops(Index n) const override;
  double row_penalty(const RatedRow& row, View parameters) const override;
  double add_losses(const RatedRow& row, View parameters, Scratch& scratch, kernels::LossSums& sums) const override;

  std::vector<Metric> metrics(const kernels::LossSums& sums) const override;
  std::vector<LayerSummary> summary(Index batch) const override;
  double flops_per_example() const override;

  /// r̂ of a user and an item, by the numbers of their rows in the shards.
  float rating(Index user, Index item, const TableParts& parts) const;
  TableParts tables(MutableView parameters) const {
    return {.rows = parameters.data() + users_, .columns = parameters.data() + items_};
  }

 private:
  kernels::FactorRows rows_at(float* first) const;
  kernels::FactorStep step_at(double rate) const;
  bool has_own_l2() const { return settings_.l2_per == PenaltyPer::user_and_item && !least_squares_; }
  Index declare(const std::string& name, Index rows);
  void take_counts(std::span<const std::int64_t> counts);
  void require_least_squares() const;
  double least_squares_flops() const;
  bool implicit() const { return settings_.feedback == Feedback::implicit; }
  /// What r̂ should be for a value of the set, and the weight of its square.
  float target_of(float value) const { return implicit() ? static_cast<float>(value > 0) : value; }
  double weight_of(float value) const;
  /// λ of a row with n ratings.
  double l2_of(std::size_t space, Index n) const;
  kernels::RowMatrix table(std::size_t space, View parameters) const;

  FactorizationSettings settings_;
  Index user_count_, item_count_, width_, stride_;
  std::int64_t examples_;  ///< ratings of the training set; 0: unknown
  float mean_;
  bool adagrad_;
  Index users_ = 0, items_ = 0;               ///< offsets of the tables in θ
  std::array<std::vector<float>, 2> own_l2_;  ///< λ / n of each user and item, with l2_per = user_and_item
  std::unique_ptr<kernels::LeastSquaresKernels> least_squares_;  ///< null: trained by another method
};

}  // namespace unisono::models
