#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// How a row of θ is merged that several ranks changed.
enum class MergeChoice {
  by_model,  ///< as InPlace::usual_merge says
  sum,       ///< the changes of all ranks are added
  mean       ///< of the ranks that changed it
};

/// Whether the rows of this model (which is updated in place) are merged by adding the ranks' changes.
bool sums_changes(const models::InPlace& model, MergeChoice merge);

/// Keys about merging rows, of strategies that average θ.
struct MergeSettings {
  MergeChoice merge = MergeChoice::by_model;
  std::int64_t merge_after = 64;  ///< with sum: touches, by all ranks, after which a row is merged between averages
  void describe(ConfigVisitor& visitor);
};

/// Advice of StrategyKind::relief for strategies that average θ.
std::string relief_of_averages(const StrategySettings& settings, bool in_place);

/// Adds to AveragedCounters, where there is more than one rank to send them to.
void count_averaged(const TrainContext& run, std::size_t bytes);

/// θ ← Σ_r weight_r θ_r / Σ_r weight_r over the ranks of a group, for a model without rows; frozen blocks are left out.
/// Collective over the group. \return the bytes of what was averaged
std::size_t average_parameters(const TrainContext& run, comm::Communicator& group, double weight);
/// Averages these ranges of θ alone.
std::size_t average_parameters(const TrainContext& run, comm::Communicator& group, double weight,
                               const std::vector<FloatRange>& ranges);

/// Averages θ over the ranks when its owner calls it, weighted by the ranks' examples. In a model with rows, a row
/// becomes the weighted mean of those ranks that changed it, or its old value plus the sum of their changes; unchanged
/// rows are not sent. parameter_average.cpp describes the algorithm.
class ParameterAverage {
 public:
  /// \param compressed null: the ranks' changes of rows are sent as they are. Else the run keeps what this rank has not
  ///   sent in its last vector, which is like θ.
  ParameterAverage(TrainContext& run, const MergeSettings& settings, parallel::CompressedChanges* compressed = nullptr);

  /// Bytes of memory that one object takes on each rank.
  static std::int64_t bytes(const models::Model& model, const MergeSettings& settings, int ranks);

  /// Where the model's steps must mark the rows that they touch; null if the model has no rows or there is only one
  /// rank.
  models::TouchedRows* touched() { return touched_ ? &*touched_ : nullptr; }
  /// Averages all of θ. Collective. \param weight of this rank: its examples since the last average
  void average(double weight);
  /// Called before each step. \return in how many parts to make it, so that frequently touched rows can be merged in
  /// between; the same on every rank. \param examples of the step, over all ranks
  int begin_step(Index examples);
  /// Called after each part of a step but the last: merges the rows that are due. Collective.
  void merge_after_part(int part);
  /// Called after a step without an average: merges the rows that were touched often enough. Collective.
  void merge_after_step();

 private:
  /// A row that is to be merged.
  struct RowToMerge {
    Index at;     ///< its offset in θ
    float share;  ///< weight of this rank's row in the mean; 0: this rank did not change it
    std::int32_t floats;
  };
  /// A row that is to be merged several times a step.
  struct FrequentRow {
    RowToMerge row;
    float merges;  ///< per step
  };

  bool sums() const { return !old_.empty(); }
  bool merges_early() const { return sums() && merge_after_ > 0; }
  void merge_rows(std::size_t space, float weight, std::int64_t least);
  void count_and_merge();
  void note_frequent(std::size_t space);
  void merge_due(int part);
  void exchange(std::span<const RowToMerge> rows);
  void average_rest(double weight);
  void sum(std::span<float> values);
  void sum_compressed(std::span<const RowToMerge> rows);
  void take_residual();
  void give(const RowToMerge& row, std::span<float> to) const;
  void take(const RowToMerge& row, std::span<const float> sum);

  TrainContext& run_;
  std::int64_t merge_after_;
  std::vector<models::RowSpace> spaces_;
  std::optional<models::TouchedRows> touched_;
  std::vector<float> weights_, packed_;
  std::vector<RowToMerge> rows_;
  int parts_ = 1;                            ///< of the present step
  bool learns_ = true;                       ///< the first step after an average: touches are summed more often
  float uncounted_ = 0;                      ///< steps, in fractions, since touches were last summed over the ranks
  std::vector<std::vector<float>> counted_;  ///< by space and row: touches by all ranks, as last summed
  std::vector<FrequentRow> frequent_;
  std::vector<float> old_;  ///< θ after the last average or merge; empty where rows become means
  parallel::CompressedChanges* compressed_;
  std::vector<float> unsent_;  ///< of the rows in packed_
};

}  // namespace unisono::strategies
