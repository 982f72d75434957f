#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "server/client.hpp"
#include "server/server.hpp"
#include "server/shards.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// What a worker is told.
struct WorkerSettings {
  Consistency consistency = Consistency::asynchronous;
  std::int64_t staleness = 0;  ///< bounded
  std::int64_t pull_period = 1, push_period = 1;
  bool prefetch = false;  ///< pulls during the step before
  double clip_norm = 0;
  int workers = 1;  ///< all there are
  float share = 1;  ///< of a worker's change of a row that becomes a change of the row
};

/// One that computes on what it pulls, and pushes what comes out.
class ServedWorker {
 public:
  /// \param run whose communicator it does not use
  ServedWorker(const TrainContext& run, Client client, const WorkerSettings& settings)
      : run_(run), client_(std::move(client)), settings_(settings) {}
  virtual ~ServedWorker() = default;

  void train(const Segment& segment);

  /// Steps that it has made since the run began.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  Index examples() const { return examples_; }  ///< since this one began

 protected:
  /// As many steps as it is allowed to.
  virtual void make_steps(const Segment& segment) = 0;
  /// The step at which what it pulled is too old.
  std::int64_t next_pull(std::int64_t clock, const Pulled& pulled) const;
  double share_of(const data::Batch& batch) const;
  void count(const data::Batch& batch);

  TrainContext run_;
  Client client_;
  WorkerSettings settings_;

 private:
  void account();

  std::int64_t steps_ = 0;
  Index examples_ = 0;
  double message_seconds_ = 0, held_seconds_ = 0;  ///< of the client, as far as accounted for
};

/// Of a model with a gradient. \param shards of all servers
std::unique_ptr<ServedWorker> make_gradient_worker(const TrainContext& run, Client client,
                                                   const WorkerSettings& settings,
                                                   const std::vector<comm::Slice>& shards);
/// Of a model that is updated in place.
std::unique_ptr<ServedWorker> make_in_place_worker(const TrainContext& run, Client client,
                                                   const WorkerSettings& settings,
                                                   const std::vector<comm::Slice>& shards);

}  // namespace unisono::strategies
