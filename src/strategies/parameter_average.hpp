#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// How a row that several ranks changed becomes one.
enum class RowMerge {
  by_model,  ///< as InPlace::usual_merge says
  sum,       ///< the changes of all are added
  mean       ///< over those that changed it
};

/// Whether rows of this model are to become the sum of the changes. Of a model that is updated in place.
bool sums_changes(const models::InPlace& model, RowMerge merge);

struct RowMergeSettings {
  RowMerge merge = RowMerge::by_model;
  std::int64_t merge_after = 64;  ///< sum: touches after which a row is merged between averages
  void describe(ConfigVisitor& visitor);
};

/// What averages less often, for a summary's advice.
std::string relief_of_averages(const StrategySettings& settings, bool in_place);

/// Makes one model of the ranks' θ now and then. Of a model with rows, a row becomes the mean of those ranks that
/// changed it, weighted by their examples, or the sum of their changes, and rows that nobody changed are not sent; all
/// else becomes the mean over all ranks, weighted likewise.
class ParameterAverage {
 public:
  ParameterAverage(TrainContext& run, const RowMergeSettings& settings);

  /// What one on each of so many ranks takes.
  static std::int64_t bytes(const models::Model& model, const RowMergeSettings& settings, int ranks);

  /// What the model's steps are to mark; null where there are no rows, or no other rank.
  models::TouchedRows* touched() { return touched_ ? &*touched_ : nullptr; }
  /// Collective. \param examples of this rank since the last average
  void average(Index examples);
  /// How many parts the next step is to be made in, so that its most frequent rows can be merged between them; the same
  /// on every rank. \param examples of the step, over all ranks
  int begin_step(Index examples);
  /// After each part of a step but the last: rows that are due. Collective.
  void merge_after_part(int part);
  /// After a step without an average: rows that were touched often enough. Collective.
  void merge_after_step();

 private:
  /// A row that is to be merged.
  struct Row {
    Index at;     ///< in θ
    float share;  ///< of the mean that this rank's row has; 0: it did not change it
    std::int32_t floats;
  };
  /// A row that is to be merged several times a step.
  struct FrequentRow {
    Row row;
    float merges;  ///< a step
  };

  bool sums() const { return !old_.empty(); }
  bool merges_early() const { return sums() && merge_after_ > 0; }
  void merge_rows(std::size_t space, float weight, std::int64_t least);
  void count_and_merge();
  void note_frequent(std::size_t space);
  void merge_due(int part);
  void exchange(std::span<const Row> rows);
  void average_rest(double weight);
  void sum(std::span<float> values);
  void count_bytes(std::size_t bytes);
  void give(const Row& row, std::span<float> to) const;
  void take(const Row& row, std::span<const float> sum);

  TrainContext& run_;
  std::int64_t merge_after_;
  std::vector<models::RowSpace> spaces_;
  std::optional<models::TouchedRows> touched_;
  std::vector<float> weights_, packed_;
  std::vector<Row> rows_;
  int parts_ = 1;                            ///< of this step
  bool learns_ = true;                       ///< nothing was counted since the last average
  float uncounted_ = 0;                      ///< parts of a step since touches were last counted
  std::vector<std::vector<float>> counted_;  ///< by space and row: touches by all ranks, of rows that were not merged
  std::vector<FrequentRow> frequent_;
  std::vector<float> old_;  ///< θ after the last average; empty: the mean needs none
};

}  // namespace unisono::strategies
