#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "server/client.hpp"
#include "server/server.hpp"
#include "server/shard.hpp"
#include "unisono/parallel/compression_settings.hpp"
#include "unisono/parallel/counters.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// The settings of a worker.
struct WorkerSettings {
  Consistency consistency = Consistency::asynchronous;
  std::int64_t staleness = 0;  ///< with bounded: steps
  std::int64_t pull_period = 1, push_period = 1;
  bool prefetch = false;  ///< pulls while the previous step computes
  double clip_norm = 0;
  int workers = 1;                                 ///< in the run
  float share = 1;                                 ///< factor of a worker's change of a row before it is added to θ
  parallel::CompressionSettings compression = {};  ///< of pushed gradients
};

/// A worker of a strategy with servers: pulls θ, computes, and pushes a gradient or changes.
class ServedWorker {
 public:
  /// \param run its communicator is not used
  ServedWorker(const TrainContext& run, Client client, const WorkerSettings& settings)
      : run_(run), client_(std::move(client)), settings_(settings) {}
  virtual ~ServedWorker() = default;

  void train(const Segment& segment);

  /// Steps of this worker since the run began.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  Index examples() const { return examples_; }  ///< since this object was made
  const parallel::CompressionCounters& compression() const { return compression_; }

 protected:
  /// Makes as many steps of the segment as the servers grant.
  virtual void make_steps(const Segment& segment) = 0;
  /// The step before which the worker must pull again.
  std::int64_t next_pull(std::int64_t clock, const Pulled& pulled) const;
  double share_of(const data::Batch& batch) const;
  void count(const data::Batch& batch);

  TrainContext run_;
  Client client_;
  WorkerSettings settings_;
  parallel::CompressionCounters compression_;

 private:
  void account();

  std::int64_t steps_ = 0;
  Index examples_ = 0;
  double message_seconds_ = 0, held_seconds_ = 0;  ///< of the client, already added to the run's Seconds
};

/// For a model with a gradient. \param shards of all servers, as ranges of θ
std::unique_ptr<ServedWorker> make_gradient_worker(const TrainContext& run, Client client,
                                                   const WorkerSettings& settings,
                                                   const std::vector<comm::Slice>& shards);
/// For a model that is updated in place.
std::unique_ptr<ServedWorker> make_in_place_worker(const TrainContext& run, Client client,
                                                   const WorkerSettings& settings,
                                                   const std::vector<comm::Slice>& shards);

}  // namespace unisono::strategies
