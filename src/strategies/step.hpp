#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/strategies/phase.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// Counts its scope as computation, and makes it longer where the run is to be slow.
class ComputeScope {
 public:
  explicit ComputeScope(const TrainContext& run)
      : timer_(run.seconds.compute), fault_(run.fault), cpu_seconds_(fault_ != nullptr ? thread_cpu_seconds() : 0) {}
  ~ComputeScope() {
    if (fault_ != nullptr) fault_->after(thread_cpu_seconds() - cpu_seconds_);
  }
  ComputeScope(const ComputeScope&) = delete;
  ComputeScope& operator=(const ComputeScope&) = delete;

 private:
  ScopedTimer timer_;  // ends last
  Fault* fault_;
  double cpu_seconds_;
};

/// What the gradient of a step is the mean of.
enum class MeanOver { all_ranks, own_examples };

/// The run's next batch; waiting for it is counted as input.
data::Batch next_batch(TrainContext& run);

/// Reads the micro-batches of one step and leaves g = (1/n) Σ ∇loss over this rank's examples; n: the step's examples
/// on all ranks, or on this one.
/// \param ready called in the last micro-batch, when ranges of g are final; may be empty
/// \param waited seconds that `ready` has waited so far for messages, which are no computation; may be empty
/// \return the last micro-batch
data::Batch accumulate_gradient(TrainContext& run, MeanOver mean_over, const models::GradientReady& ready = {},
                                const std::function<double()>& waited = {});

/// One update of θ from g.
void update_parameters(TrainContext& run, double learning_rate);

/// Running statistics that follow each rank's own examples become one model's, weighted by these. Nothing to do where
/// they are global. Collective.
/// \param examples of this rank since the last average
void average_local_statistics(TrainContext& run, Index examples);

/// Waits until all ranks are here, and counts it as waiting for stragglers, so that what is measured behind it is
/// communication alone. Collective.
void meet(TrainContext& run);

/// \param step steps made, the one of this batch included
StepRecord make_record(const data::Batch& batch, std::int64_t step, double learning_rate, bool consistent);

/// Trains with allreduce until `last_step` steps are made. \return whether the observer wants to go on
bool train_with_allreduce(TrainContext& run, std::int64_t last_step);

/// Makes one model of the ranks' θ now and then. Of a model with rows, a row becomes the mean of those ranks that
/// changed it, weighted by their examples, or the sum of their changes, and rows that nobody changed are not sent; all
/// else becomes the mean over all ranks, weighted likewise.
class ParameterAverage {
 public:
  /// \param settings of which `merge` and `merge_after` are taken
  ParameterAverage(TrainContext& run, const StrategySettings& settings);

  /// What one on each of so many ranks takes.
  static std::int64_t bytes(const models::Model& model, const StrategySettings& settings, int ranks);

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

/// The pieces of a batch that threads may update in place at the same time: ranges of its set, or of a table's rows.
/// \param part of so many about equal ones that the batch is cut into
std::vector<data::ExampleRange> pieces_of(const data::Batch& batch, int part = 0, int parts = 1);

/// Trains on all of this rank's part of a step in place, on the calling thread, one piece after the other. \return its
/// batch
/// \param parameters of several ranks: whose rows are marked, and merged between the step's parts; may be null
data::Batch step_in_place(TrainContext& run, models::Scratch& scratch, double learning_rate,
                          ParameterAverage* parameters = nullptr);

/// How many examples one of so many replicas of θ was trained on before this batch: its share of all.
std::int64_t own_examples_before(const TrainContext& run, const data::Batch& batch, int replicas);

// One file each in this folder.
std::unique_ptr<Strategy> make_allreduce(const StrategySettings& settings);
std::unique_ptr<Strategy> make_averaging(const StrategySettings& settings);
std::unique_ptr<Strategy> make_elastic_averaging(const StrategySettings& settings);
std::unique_ptr<Strategy> make_hogwild(const StrategySettings& settings);
std::unique_ptr<Strategy> make_parameter_server(const StrategySettings& settings);
std::unique_ptr<Strategy> make_serial(const StrategySettings& settings);
std::unique_ptr<Strategy> make_stratified(const StrategySettings& settings);

}  // namespace unisono::strategies
