#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memory_source.hpp"
#include "unisono/comm/device.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/parallel/replica.hpp"
#include "unisono/strategies/strategy.hpp"

// Trainings on ranks that are threads of this process, on examples in memory.

namespace unisono::strategies {

/// A model for one rank.
using MakeModel =
    std::function<std::unique_ptr<models::Model>(const models::ModelInputs&, const models::ModelContext&)>;
using MakeSource = std::function<std::unique_ptr<data::BatchSource>(const data::SourceOptions&)>;

/// As users write it: "kind = 'averaging', period = 2"; keys are separated by commas.
StrategySettings strategy_of(std::string keys);

/// With settings of its own.
template <typename Own>
StrategySettings strategy_with(StrategySettings settings, const Own& own) {
  settings.own.of<Own>() = own;
  return settings;
}

/// The backend of a rank.
using MakeBackend = std::function<std::unique_ptr<kernels::Backend>(int rank)>;

struct Outcome;

struct Training {
  MakeModel model;
  StrategySettings strategy{};
  optim::OptimizerSettings optimizer{};
  optim::ScheduleSettings schedule{};
  int ranks = 1;
  int ranks_per_node = 0;  ///< of simulated nodes; 0: all ranks are on one
  Index batch_size = 4, accumulate = 1, micro_batches = 1;
  int leaves = 0;                       ///< of reproducible sums; 0: fast ones
  parallel::ReplicaSettings replica{};  ///< `ranks` are replicas × stages
  std::int64_t epochs = 1;
  bool shuffle = true;
  Index rotation = 0;
  std::int64_t stop_after = 1'000'000;          ///< the observer wishes to stop once so many steps are made
  Index bucket_bytes = 64;                      ///< so that even small models have several
  bool one_theta = false;                       ///< where the strategy shards the optimizer: the ranks share one θ
  MakeSource source{};                          ///< empty: a MemorySource
  std::optional<models::ModelInputs> inputs{};  ///< where the source has other examples than the given ones
  std::function<std::span<const std::int64_t>()> occurrences{};
  const std::vector<Outcome>* resumed = nullptr;  ///< goes on where these ranks stopped; of more ranks, in turn
  const EventRecord* replayed = nullptr;          ///< keeps to this order
  bool reads_losses_at_averages = false;          ///< else after each step; Outcome::losses is then 0 in between
  std::int64_t due_every = 1;                     ///< steps after which the observer wants a consistent model
  MakeBackend backend{};                          ///< empty: the CPU's
  comm::DeviceTransport device_transport = comm::DeviceTransport::automatic;  ///< where backends have devices
};

/// What one rank was left with.
struct Outcome {
  std::vector<float> parameters{}, statistics{};         ///< all of them, also where this rank is a stage of a pipeline
  std::vector<optim::OptimizerState> optimizer_state{};  ///< whole vectors, also where ranks keep shards of them
  Index state_floats = 0;                                ///< of the optimizer's vectors on this rank
  std::vector<parallel::StrategyVector> vectors{};
  std::vector<double> scalars{};  ///< of the strategy
  std::int64_t optimizer_steps = 0;
  std::vector<StepRecord> records{};
  std::vector<double> losses{};                  ///< this rank's sums, a step each
  std::vector<kernels::LossSums> sums{};         ///< likewise, all of them
  std::vector<std::vector<float>> trajectory{};  ///< θ after each step
  Seconds seconds{};
  CounterSet counters{};
  double total_seconds = 0;
  std::int64_t workspace_bytes = 0;  ///< see Replica
  std::vector<RecordedSegment> events{};
};

/// Trains and returns what each rank was left with.
std::vector<Outcome> train(const Examples& examples, const Training& training);

/// Losses of each step, over all ranks.
std::vector<double> losses_over_ranks(const std::vector<Outcome>& ranks);

/// The same, from the ranks' exact sums.
std::vector<double> settled_losses(const std::vector<Outcome>& ranks);

double largest_difference(const std::vector<float>& a, const std::vector<float>& b);
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

/// Whether all ranks hold the same bits of parameters and running statistics.
bool ranks_agree(const std::vector<Outcome>& ranks);

}  // namespace unisono::strategies
