#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "placement.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/experiment/config.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono {

/// A set that the ranks of each node share, where it is resident and the node has a window for it. Its construction is
/// collective.
class SharedDataset {
 public:
  /// \param normalization of a trained model, or null: the training set's own
  SharedDataset(Communicator& world, const DataSettings& settings, std::uint64_t seed,
                const Normalization* normalization = nullptr);
  SharedDataset(const SharedDataset&) = delete;
  SharedDataset& operator=(const SharedDataset&) = delete;

  Dataset& operator*() const { return *dataset_; }
  Dataset* operator->() const { return dataset_.get(); }

 private:
  std::vector<std::shared_ptr<std::byte>> windows_;  // they and the share outlive the set
  NodeShare share_;
  std::unique_ptr<Dataset> dataset_;
};

ModelInputs inputs_of(const DatasetInfo& info);

/// A model on this rank, ready to be evaluated: what train, evaluate, predict and bench share. Its construction is
/// collective, and checks that all ranks order θ alike.
struct ModelParts {
  ModelParts(Communicator& communicator, const Config& config, const ModelInputs& inputs, Log& log);

  ModelState state() { return {.parameters = parameters.view(), .statistics = statistics.view()}; }
  /// "AMD EPYC 9R14, CPU, AVX-512, 2 threads": what bit-for-bit equality depends on
  std::string device() const { return cpu_name() + ", " + backend->description(); }

  Communicator& world;
  Placement placement;
  std::unique_ptr<Strategy> strategy;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Communicator> statistics_group;  ///< of all ranks: layers' messages never mix with the strategy's
  CommunicatorReducer statistics_reducer;
  std::unique_ptr<Model> model;
  Buffer parameters;  ///< θ, in memory that the ranks of a node share
  Buffer statistics;
};

/// What training needs on top.
struct TrainingParts {
  TrainingParts(ModelParts& parts, const Config& config);

  Buffer gradient;  ///< g, in memory that the ranks of a node share
  std::unique_ptr<Optimizer> optimizer;
  LossSums sums;
  Seconds seconds;
};

}  // namespace unisono
