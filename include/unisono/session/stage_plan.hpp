#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"
#include "unisono/models/staged.hpp"
#include "unisono/parallel/placement.hpp"
#include "unisono/session/memory.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::session {

/// What the ranks of a run can do, all of them. Empty lists: nothing is known.
struct RankAbilities {
  int ranks = 1;
  std::vector<double> gflops = {};  ///< [ranks] GFLOP/s; in force where `seconds` is empty
  /// [ranks][segments] measured seconds of one example's passes.
  std::vector<std::vector<parallel::PassSeconds>> seconds = {};
  std::vector<double> limits = {};  ///< [ranks] bytes that a rank may use in all
  std::int64_t process_bytes = 0;   ///< resident memory before anything is allocated: code, MPI, HDF5
};

/// The abilities of another number of ranks: unknown ranks can do what the weakest known rank can.
RankAbilities on_ranks(RankAbilities abilities, int ranks);

/// GFLOP/s of a rank of which nothing is known.
inline constexpr double kAssumedGflops = 10;

/// The sizes on which the prices of a placement depend.
struct StepSizes {
  int stages = 1;
  Index batch_size = 1;
  std::int64_t micro_batches = 1;  ///< micro-batches of a step on all replicas
};

/// Predicts what the stages of a model need and how long their steps take.
class StagePlan {
 public:
  /// All arguments must outlive the plan.
  /// \pre the model has layers
  StagePlan(const settings::Config& config, const models::Model& model, const kernels::Backend& backend,
            const data::DatasetInfo& data, const strategies::Strategy& strategy, RankAbilities abilities);

  /// The plan of another config for the same model and ranks.
  StagePlan(const StagePlan& other, const settings::Config& config);
  /// The plan of the same config on another number of ranks.
  StagePlan(const StagePlan& other, int ranks);

  const RankAbilities& abilities() const { return abilities_; }
  const models::Staged& staged() const { return *model_.staged(); }
  const nn::Network& network() const { return staged().network(); }
  std::int64_t most_examples() const { return data_.train; }  ///< the most examples of a step; 0: any number
  int segments() const { return static_cast<int>(points_.size()) + 1; }
  int replicas(int stages) const { return abilities_.ranks / (stages * tensor()); }
  int tensor() const { return static_cast<int>(config_.replica.tensor); }  ///< ranks that share a stage's work

  /// The problem of placing the model, for steps of given sizes. The problem refers to the plan.
  /// \pre sizes.stages divides the ranks
  parallel::PlacementProblem problem(const StepSizes& sizes) const;
  /// What the rank of a stage needs, by kind. \param stage number of the stage that the rank runs
  std::vector<MemoryItem> memory(const StepSizes& sizes, const parallel::Placement& placement, int stage) const;
  /// [pieces] The layer that each piece begins with. \param cuts [pieces + 1] see Placement
  std::vector<std::string> first_layers(const std::vector<int>& cuts) const;
  /// The config with which a step has the sizes.
  settings::Config with(const StepSizes& sizes) const;

 private:
  const nn::Piece& piece(int first, int last) const;
  std::vector<MemoryItem> piece_items(const StepSizes& sizes, int first, int last) const;
  std::vector<MemoryItem> rank_items(const StepSizes& sizes) const;
  parallel::FlightMemory flight(const StepSizes& sizes, int first, int last) const;
  Index micro_batch(const StepSizes& sizes) const;
  Index evaluation_batch(const StepSizes& sizes) const;
  std::int64_t examples_bytes(bool reads_inputs) const;
  std::vector<parallel::PassSeconds> seconds(const StepSizes& sizes, int slot) const;
  parallel::PassSeconds segment_cost(int segment) const;
  double limit(const StepSizes& sizes, int slot) const;
  std::vector<std::size_t> ranks_at(const StepSizes& sizes, int slot) const;
  bool ends(int last) const { return last == segments(); }

  const settings::Config& config_;
  const models::Model& model_;
  const kernels::Backend& backend_;
  const data::DatasetInfo& data_;
  const strategies::Strategy& strategy_;
  RankAbilities abilities_;
  std::vector<nn::CutPoint> points_;
  /// Vectors of θ's size that the optimizer keeps; and that optimizer and strategy keep together.
  std::int64_t optimizer_states_ = 0, states_ = 0;
  mutable std::map<std::pair<int, int>, nn::Piece> pieces_;  ///< by their segments
};

}  // namespace unisono::session
