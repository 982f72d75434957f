#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/event_order.hpp"
#include "server/server.hpp"
#include "server/shard.hpp"
#include "server/wire.hpp"
#include "server/workers.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// The roles that the settings give to these ranks. \throws ConfigError if no rank would train
Roles roles_of(const StrategySettings& settings, int ranks);
/// The beginning of the text of StrategyKind::relief for strategies with servers.
std::string relief_by_servers(const StrategySettings& settings);
/// Of a rank's server beside its worker, which hears from each worker once in a period of its steps;
/// none where servers have ranks of their own.
std::vector<Wait> waits_of_servers(const StrategySettings& settings, int ranks, double period);

/// A rank's part of the training examples under these roles; see Strategy::data_shard.
std::optional<Strategy::DataShard> data_shard(const Roles& roles, int rank);

/// What a strategy with servers specifies: roles, shards, and how workers and servers are made.
struct ServingPlan {
  Roles roles;
  std::vector<comm::Slice> places{};  ///< the shards' ranges in θ
  ServerSettings server{};
  /// \param run the worker's own context, see Serving::context_of
  std::function<std::unique_ptr<ServedWorker>(const TrainContext& run, Client client)> make_worker{};
  /// \param statistics running statistics that the shard holds as well; empty except for server 0 \param backend a CPU
  /// backend for the server's updates
  std::function<std::unique_ptr<ServerShard>(comm::Slice place, MutableView statistics, kernels::Backend& backend)>
      make_shard{};
  /// How pushes to this shard are encoded; empty: they are not.
  std::function<std::unique_ptr<PushCode>(comm::Slice place)> make_code{};
  std::int64_t alone_until = 0;   ///< steps before this one are made by worker 0 alone
  bool serves_optimizer = false;  ///< the shards apply the run's optimizer and hold its state
  /// Called at the end of each segment, on all ranks; may be empty.
  std::function<void(comm::Communicator& group, const Roles& roles)> at_meeting{};
};

/// The training loop of strategies with servers. Each worker and server runs on a thread of its own. Training goes
/// segment by segment; at the end of each, all pushes have been applied, all ranks get the whole θ, and the observer
/// sees one consistent model.
class Serving {
 public:
  /// Collective.
  Serving(TrainContext& run, ServingPlan plan);
  /// Collective.
  void train();

 private:
  /// A worker and its counters.
  struct WorkerRole {
    int number;
    kernels::Backend& backend;  ///< with which it computes
    kernels::LossSums sums{};
    Seconds seconds{};
    std::unique_ptr<ServedWorker> worker{};
  };
  struct ServerRole {
    int number = 0;
    std::unique_ptr<ServerShard> shard;
    std::unique_ptr<Server> server;
    EventOrder order{};  ///< of the present segment
  };

  void begin_counters();
  void add_workers();
  void add_servers();
  TrainContext context_of(WorkerRole& role, std::size_t place) const;
  Segment next_segment(std::int64_t made) const;
  EventOrder order_of(const Segment& segment, int server) const;
  void run_roles(const Segment& segment);
  void collect();
  void gather();
  void broadcast_shard(int server);
  void record(const Segment& segment);
  StepRecord record_of(const Segment& segment);

  TrainContext& run_;
  ServingPlan plan_;
  std::unique_ptr<comm::Communicator> group_;
  Wire wire_;
  std::unique_ptr<kernels::Backend> backend_;  ///< for this rank's servers
  std::vector<std::unique_ptr<WorkerRole>> workers_;
  std::vector<std::unique_ptr<ServerRole>> servers_;
  std::unique_ptr<ThreadTeam> team_;
  Index examples_ = 0;  ///< over all workers, up to the last record
};

}  // namespace unisono::strategies
