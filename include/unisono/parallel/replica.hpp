#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/models/model.hpp"
#include "unisono/nn/network.hpp"
#include "unisono/tensor/holding.hpp"

namespace unisono::comm {
class Communicator;
}

namespace unisono::parallel {

class GradientExchange;
struct StepTerms;

/// Whether g is the mean over the examples of all replicas in the step, or over this replica's own.
enum class MeanOver { all_replicas, own_examples };

/// A copy of the model as strategies train it: one rank that holds all of θ, or the stages of a pipeline and the ranks
/// that share the work of layers, each with its shard of θ and g. A strategy does not know which.
class Replica {
 public:
  virtual ~Replica() = default;

  /// How this rank's shard of θ, of g and of the optimizer's vectors lies in memory.
  virtual const ParameterLayout& layout() const = 0;
  /// How this rank's shard of the running statistics lies in memory.
  virtual const ParameterLayout& statistics_layout() const = 0;
  /// Gradient accumulation: reads the micro-batches of one step and leaves g = (1/n) Σ w ∇ℓ, summed over this replica's
  /// examples, in their order; each rank of the replica has its shard. n: the step's examples on all replicas, or on
  /// this replica. Collective over the replica's ranks.
  /// \param exchange is told which ranges of g are final; may be null
  /// \return the step's last micro-batch, of which only the counts are valid
  virtual data::Batch gradient_of_step(StepTerms& run, MeanOver mean_over, GradientExchange* exchange) = 0;
  /// The ranges of θ whose steps its backward pass can make at once (models::GradientTarget::step), ascending.
  virtual std::vector<FloatRange> steps_at_once() const { return {}; }
  /// Adds the losses of all examples of a source to `sums`, on one rank of the replica. Collective over the replica's
  /// ranks.
  /// \param reader is told all predictions, on the same rank; null: nobody asks for them
  virtual void evaluate(data::EvaluationSource& source, models::ModelState state, kernels::LossSums& sums,
                        models::PredictionReader* reader) = 0;
  /// Sums numbers of which each of the replica's ranks has its own, in place: all get the sums. Collective over the
  /// replica's ranks.
  virtual void sum(std::span<double>) {}
  /// The trainable floats of this rank's θ that count in such sums: of numbers that several of the ranks hold, one
  /// rank's.
  virtual std::vector<FloatRange> counted() const { return layout().trainable(); }
  /// The most memory that the activations of a pipeline's stage have taken so far; 0 for other replicas.
  virtual std::int64_t workspace_bytes() const { return 0; }
};

/// A replica of one rank.
class SingleReplica : public Replica {
 public:
  explicit SingleReplica(models::Model& model) : model_(model) {}
  const ParameterLayout& layout() const override { return model_.layout(); }
  const ParameterLayout& statistics_layout() const override { return model_.statistics_layout(); }
  data::Batch gradient_of_step(StepTerms& run, MeanOver mean_over, GradientExchange* exchange) override;
  std::vector<FloatRange> steps_at_once() const override { return model_.steps_at_once(); }
  void evaluate(data::EvaluationSource& source, models::ModelState state, kernels::LossSums& sums,
                models::PredictionReader* reader) override;

 private:
  models::Model& model_;
};

/// The floats of a rank's vector that count (BlockRange::counts) and are trained.
std::vector<FloatRange> counted_floats(const Holding& held);

/// A replica of ranks that share the work of each layer (tensor parallelism): each computes its part of all examples.
class DividedReplica final : public SingleReplica {
 public:
  /// \param model what this rank has of the model \param ranks those of the replica \param held what this rank holds
  /// of θ
  DividedReplica(models::Model& model, comm::Communicator& ranks, std::shared_ptr<const Holding> held)
      : SingleReplica(model), ranks_(ranks), held_(std::move(held)) {}
  void sum(std::span<double> values) override;
  std::vector<FloatRange> steps_at_once() const override { return {}; }
  std::vector<FloatRange> counted() const override { return counted_floats(*held_); }

 private:
  comm::Communicator& ranks_;
  std::shared_ptr<const Holding> held_;
};

/// Rows of θ that a strategy gives to this rank; no rank holds all of θ, and each row has one holder. What a rank holds
/// may change from step to step.
class RowHolding : public Holding {
 public:
  bool held_by_all() const final { return false; }
  /// Adds the losses of this rank's part of a split to `sums`. Collective; rows may travel meanwhile, but in the end
  /// every rank holds what it held before. \param parameters [size()] this rank's rows
  virtual void evaluate(data::EvaluationSource& source, MutableView parameters, kernels::LossSums& sums) = 0;
};

/// A replica whose ranks hold rows, of a model that is no classifier. The strategy trains the model itself, without
/// gradients.
class RowReplica final : public SingleReplica {
 public:
  RowReplica(models::Model& model, std::shared_ptr<RowHolding> rows) : SingleReplica(model), rows_(std::move(rows)) {}
  void evaluate(data::EvaluationSource& source, models::ModelState state, kernels::LossSums& sums,
                models::PredictionReader* /*reader*/) override {
    rows_->evaluate(source, state.parameters, sums);
  }

 private:
  std::shared_ptr<RowHolding> rows_;
};

/// The order in which the stages of a pipeline run the passes of a step's micro-batches. All are in
/// src/parallel/pipeline/schedules.cpp, with their papers.
enum class PipelineSchedule { naive, gpipe, one_forward_one_backward, interleaved, zero_bubble };

inline constexpr Named<PipelineSchedule> kPipelineSchedules[] = {
    {PipelineSchedule::naive, "naive", "one stage works at a time; the least memory"},
    {PipelineSchedule::gpipe, "gpipe", "all forward passes, then all backward passes; the most memory"},
    {PipelineSchedule::one_forward_one_backward, "1f1b",
     "forward and backward passes in turn: as fast as gpipe, with at most as many activations as stages"},
    {PipelineSchedule::interleaved, "interleaved",
     "1f1b with several pieces of the model on each rank: shorter idle times, more messages and activations"},
    {PipelineSchedule::zero_bubble, "zero_bubble",
     "1f1b with the gradients of weights computed in the idle times (ZB-H1)"}};

/// Which activations are computed anew before a backward pass, instead of kept from the forward pass.
enum class Recompute { none, blocks, all, automatic };

inline constexpr Named<Recompute> kRecompute[] = {
    {Recompute::none, "none", "all activations are kept"},
    {Recompute::blocks, "blocks", "those inside of residual blocks, before each block's backward pass"},
    {Recompute::all, "all",
     "in pipelines: all but a piece's inputs, before the piece's backward pass; with stages = 1 the same as none"},
    {Recompute::automatic, "auto",
     "in pipelines: all where the model would not fit into memory otherwise, or be slower"}};

/// How fast the ranks are, for the placement of layers.
enum class Speed { flops, measured };

inline constexpr Named<Speed> kSpeeds[] = {
    {Speed::flops, "flops", "all ranks are equally fast, and a layer takes as long as its flops say"},
    {Speed::measured, "measured", "each rank times the passes of all layers before the run begins"}};

/// `[replica.placement]`: which layers each stage holds.
struct PlacementSettings {
  /// First layers of the pieces, in the order of the pieces; empty: chosen automatically.
  std::vector<std::string> first_layers = {};
  /// Which of a replica's ranks runs each stage; empty: stages in the order of the ranks, or chosen automatically.
  std::vector<std::int64_t> ranks = {};
  /// Memory limits of all ranks, or of one replica's: "2 GiB"; empty: what is free.
  std::vector<std::string> memory = {};
  Speed speed = Speed::flops;       ///< how fast the ranks are, where `speeds` is empty
  std::vector<double> speeds = {};  ///< GFLOP/s of all ranks, or of one replica's
  void describe(ConfigVisitor& visitor);
  /// The memory limits in bytes.
  std::vector<double> memory_bytes() const;
  bool has_speeds() const { return speed != Speed::flops || !speeds.empty(); }
};

/// `[replica]`: the ranks that hold one copy of the model.
struct ReplicaSettings {
  std::int64_t stages = 1;  ///< 0: chosen automatically, before the replica is made
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  std::int64_t chunks = 1;  ///< pieces of the model that each stage holds; at least 2 where interleaved, else 1
  Recompute recompute = Recompute::none;
  PlacementSettings placement;
  std::int64_t tensor = 1;         ///< ranks that share the work of each layer
  std::int64_t tensor_leaves = 0;  ///< parts of the sums over them; 0: as many as ranks
  void describe(ConfigVisitor& visitor);

  /// How many pieces the model is divided into.
  std::int64_t pieces() const { return stages * chunks; }
  /// How many ranks hold one copy of the model.
  std::int64_t ranks() const { return stages * tensor; }
  std::int64_t leaves() const { return tensor_leaves == 0 ? tensor : tensor_leaves; }
  /// What rank `number` of those that share each layer's work has of it.
  nn::TensorPart part(int number) const {
    const auto count = static_cast<int>(leaves() / tensor);
    return {.leaves = static_cast<int>(leaves()), .first = number * count, .count = count};
  }
  /// Whether the placement of the layers is asked to choose something, or told about the ranks.
  bool asks_for_placement() const;
};

}  // namespace unisono::parallel
