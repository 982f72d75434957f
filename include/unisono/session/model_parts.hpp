#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/comm/gather.hpp"
#include "unisono/comm/process_grid.hpp"
#include "unisono/comm/tensor_group.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/parallel/placement.hpp"
#include "unisono/parallel/replica.hpp"
#include "unisono/parallel/slice_holding.hpp"
#include "unisono/session/placement.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/strategies/strategy.hpp"
#include "unisono/tensor/holding.hpp"

namespace unisono::session {

/// What a rank holds of a run's vectors.
struct Holdings {
  std::shared_ptr<Holding> parameters;  ///< θ, each replica's g, the average of θ, and what strategies keep of θ's size
  std::shared_ptr<const Holding> statistics;  ///< the running statistics, and what is kept of their size
  std::shared_ptr<const Holding> gradient;    ///< g as the optimizer gets it: as the rank has θ, or its slices of that
  std::shared_ptr<const Holding> state;       ///< each vector of the optimizer, or of a method for the whole set
  /// The buckets whose slices `gradient` and `state` are; empty: each replica keeps the optimizer's whole state.
  std::optional<parallel::StateShards> state_shards;
};

/// What determines what a rank holds. All but `rows` must outlive the holdings.
struct HoldingTerms {
  const settings::Config& config;
  const strategies::Strategy& strategy;
  const models::Model& model;
  kernels::Backend& backend;
  std::shared_ptr<parallel::RowHolding> rows = nullptr;  ///< rows that the strategy gives to the ranks; null: none
  const parallel::Stages* stages = nullptr;  ///< what each replica's ranks hold; null: a replica is one rank
  int rank = 0, replica = 0, replicas = 1;
  bool shares_memory = false;           ///< whether all replicas share memory; see Communicator::shares_memory
  Index usual_bucket = Index{1} << 20;  ///< bytes of a bucket, where neither the config nor shared memory decides
  SquaresReducer& squares_of_replica;   ///< sums over the ranks of this replica
  SquaresReducer& squares_of_all;       ///< sums over all ranks
};
/// What a rank holds of a run's vectors.
Holdings make_holdings(const HoldingTerms& terms);

/// What the ranks of a group that open a set together provide, but no memory that a node's ranks share.
data::NodeShare share_of(comm::Communicator& world);

/// A data set opened by all ranks of a group. The ranks of a node share one copy if the set is resident and the node
/// can allocate a shared window. Its construction is collective.
class SharedDataset {
 public:
  /// \param trained a trained model's preprocessing, or null: it is fitted on the training examples
  SharedDataset(comm::Communicator& world, const data::DataSettings& settings, std::uint64_t seed,
                const data::Preprocessing* trained = nullptr);
  /// A view of a set that is open. Not collective.
  SharedDataset(std::shared_ptr<const SharedDataset> whole, std::unique_ptr<data::Dataset> view)
      : whole_(std::move(whole)), dataset_(std::move(view)) {}
  SharedDataset(const SharedDataset&) = delete;
  SharedDataset& operator=(const SharedDataset&) = delete;

  data::Dataset& operator*() const { return *dataset_; }
  data::Dataset* operator->() const { return dataset_.get(); }

 private:
  std::shared_ptr<const SharedDataset> whole_;       ///< the set of which this is a view; null: of none
  std::vector<std::shared_ptr<std::byte>> windows_;  // declared before the set: they and the share must outlive it
  data::NodeShare share_;
  std::unique_ptr<data::Dataset> dataset_;
};

/// The part of a set's info that determines the shapes of a model.
models::ModelInputs inputs_of(const data::DatasetInfo& info);
/// The info of a hypothetical table with examples of these shapes, which takes no memory.
data::DatasetInfo set_like(const models::ModelInputs& inputs);

/// The threads of a rank that trains as a config says, and its cores. Collective over the ranks of the node.
Placement place_rank(comm::Communicator& group, const NodePlace& place, const settings::Config& config, Log& log);

/// Where and by which ranks a model is made.
struct ModelPlace {
  comm::Communicator& group;  ///< the ranks that hold the model
  const NodePlace& place;
  Log& log;
  const Clock& clock = steady_clock();
};

/// What computes on this rank. Its construction is collective.
struct RankDevice {
  RankDevice(const ModelPlace& where, const settings::Config& config);

  /// The CPU and the backend, on which bit-for-bit equality depends: "AMD EPYC 9R14, CPU, AVX-512, 2 threads".
  std::string device() const { return cpu_name() + ", " + backend->description(); }

  Placement placement;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<comm::Communicator> device_world;  ///< communicator for the backend's own memory (GPU); else null
};

/// The groups in which the ranks communicate, from the memory of a backend. Its construction is collective.
struct RankGroups {
  RankGroups(comm::Communicator& ranks, const comm::GridShape& shape, const Clock& clock);

  /// The group for layers whose work is shared; null: no rank shares it.
  comm::CommunicatorTensorGroup* tensor() { return tensor_ranks ? &tensor_group.value() : nullptr; }

  comm::ProcessGrid grid;                 ///< the process grid of all ranks
  comm::CommunicatorSquares squares;      ///< sums over the ranks of this replica
  comm::CommunicatorSquares all_squares;  ///< sums over all ranks
  /// A duplicate of grid.data() for batch statistics, so that layers' messages never mix with the strategy's.
  std::unique_ptr<comm::Communicator> statistics_group;
  comm::CommunicatorReducer statistics_reducer;
  /// A duplicate of grid.tensor(), likewise; null: layers are not divided among ranks.
  std::unique_ptr<comm::Communicator> tensor_ranks;
  std::optional<comm::CommunicatorTensorGroup> tensor_group;
};

/// A model and how it is trained. Its construction is collective, and checks that all ranks have the same layout of θ.
struct TrainableModel {
  TrainableModel(const RankDevice& device, RankGroups& groups, const settings::Config& config,
                 const models::ModelInputs& inputs, data::Dataset* data);

  std::unique_ptr<strategies::Strategy> strategy;
  std::unique_ptr<models::Model> model;  ///< all of the model, on every rank; it holds no parameters
  /// What each of the ranks that share layers has of the model; empty: layers are not divided.
  std::vector<std::unique_ptr<models::Model>> parts;
  models::Model* trained = nullptr;          ///< what this rank computes: its part of the model, or all of it
  std::unique_ptr<parallel::Stages> stages;  ///< what a replica's ranks hold; null: a replica is a single whole rank
  std::vector<float> class_weights;          ///< [K] weights of training losses by class; empty: all are 1
};

/// What a rank holds of its replica. Its construction is collective.
struct HeldReplica {
  HeldReplica(const RankDevice& device, RankGroups& groups, TrainableModel& whole, const settings::Config& config,
              data::Dataset* data, const Clock& clock);

  models::ModelState state() { return {.parameters = parameters.view(), .statistics = statistics.view()}; }

  Holdings held;                               ///< what this rank holds of θ and its companions
  std::unique_ptr<parallel::Replica> replica;  ///< what strategies train
  std::unique_ptr<Allocator> node_memory;      ///< holds the one θ of this node's ranks; null: each has its own
  Buffer parameters;                           ///< [held.parameters->size()]
  Buffer statistics;                           ///< [held.statistics->size()]
};

/// A model on this rank with its backend, groups and memory: what train, evaluate, predict and bench need. Its
/// construction is collective: one part after the other.
struct ModelParts : RankDevice, RankGroups, TrainableModel, HeldReplica {
  /// \param data the set to train on; null: the model is only applied, or timed
  ModelParts(const ModelPlace& where, const settings::Config& config, const models::ModelInputs& inputs,
             data::Dataset* data = nullptr);

  /// Gives θ and the running statistics their initial values.
  void initialise(std::uint64_t seed);
  /// Moves θ, which is the same on all ranks, to one copy for all ranks of the node, where each rank will update its
  /// shard alone. Does nothing where each replica keeps the optimizer's whole state or replicas share no memory, and
  /// where the node has no room for the copy. Views of θ become invalid. Collective.
  void share_parameters();
  /// All of θ, in its own layout. Collective.
  std::vector<float> whole_parameters();
  /// ‖v‖² of a vector that is held as θ is. Collective over the ranks that hold a copy of θ together; on CPUs the same
  /// bits whoever holds what.
  double squared_norm(View vector) { return optim::squared_norm(*held.parameters, vector, *backend); }
  /// ‖g‖² after a step of the optimizer, for a g that is held as the optimizer gets it. Collective over the ranks that
  /// hold a copy of θ together; on CPUs the same bits whoever holds what.
  double squared_gradient_norm(View gradient) { return optim::squared_norm(*held.gradient, gradient, *backend); }
  /// Whether squared_norm and squared_gradient_norm take other ranks.
  bool norms_are_collective() const {
    return held.parameters->squares() != nullptr || held.gradient->squares() != nullptr;
  }
  /// How many workers train.
  int workers() const { return strategy->workers(grid.data().size()); }
  /// Whether this rank's losses count: of the ranks that share layers, which compute the same ones, the first.
  bool counts_losses() const { return grid.place().tensor == 0; }
  /// Whether this rank trains.
  bool trains() const { return strategy->data_shard(grid.data().rank(), grid.data().size()).has_value(); }
  /// How data sources hand batches to the backend.
  data::Delivery delivery() const {
    return {.memory = &backend->batch_memory(),
            .inputs = grid.place().stage == 0,
            .keep = [this](const StoredFeatures& features) { return backend->keep(features); }};
  }
};

/// What the stages of each replica hold; null: a replica is a single rank.
/// \param parts what ranks have of the model where layers are divided, else empty \param own this rank's part
/// \throws ConfigError if the stages do not suit the model, its device or the other settings
std::unique_ptr<parallel::Stages> make_stages(const settings::Config& config, const models::Model& model,
                                              kernels::Backend& backend, int replicas,
                                              std::span<const std::unique_ptr<models::Model>> parts = {}, int own = 0);

/// What each of the ranks that share layers has of a model; empty where layers are not divided.
/// \param context of the whole model \param group the ranks, for this rank's part \param own number of this rank's part
/// \throws ConfigError where the model or its device cannot be divided
std::vector<std::unique_ptr<models::Model>> make_model_parts(const settings::Config& config,
                                                             const models::ModelInputs& inputs,
                                                             const models::Model& whole,
                                                             const models::ModelContext& context,
                                                             TensorGroup* group = nullptr, int own = 0);

/// What a rank computes of a config's model, for predictions of memory and time: all of it or, where layers are
/// divided, the first part, than which no other is much larger.
class ModelOfRank {
 public:
  /// \throws ConfigError as make_model and make_model_parts
  ModelOfRank(const settings::Config& config, const models::ModelInputs& inputs, const models::ModelContext& context)
      : whole_(models::make_model(config.model, inputs, context)),
        parts_(make_model_parts(config, inputs, *whole_, context)) {}

  models::Model& whole() const { return *whole_; }
  models::Model& model() const { return parts_.empty() ? *whole_ : *parts_.front(); }

 private:
  std::unique_ptr<models::Model> whole_;
  std::vector<std::unique_ptr<models::Model>> parts_;
};

/// The context for models::make_model. \param data the set to train on; may be null
models::ModelContext model_context(kernels::Backend& backend, Reducer& reducer, bool steps_together,
                                   const settings::Config& config, data::Dataset* data = nullptr);
/// The same for a set of which only shapes and numbers of examples are known.
models::ModelContext model_context(kernels::Backend& backend, Reducer& reducer, bool steps_together,
                                   const settings::Config& config, const data::DatasetInfo& data);

/// How the workers divide the micro-batches of a step: if the workers step together and there are enough micro-batches,
/// each worker gets whole ones.
data::MicroBatchSharing micro_batch_sharing(const settings::Config& config, int workers);

/// The options for this rank's source of training batches.
data::SourceOptions source_options(const ModelParts& parts, const settings::Config& config);

/// The optimizer of the run. \throws ConfigError if it is not possible for a model that is updated in place
optim::OptimizerSettings optimizer_settings(const settings::Config& config, const strategies::Strategy& strategy,
                                            const models::Model& model);

}  // namespace unisono::session
