#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/event_order.hpp"
#include "server/roles.hpp"
#include "server/server.hpp"
#include "server/shard.hpp"
#include "server/wire.hpp"
#include "server/workers.hpp"
#include "unisono/base/thread_team.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// Who is who on these ranks. \throws ConfigError where no rank would train
Roles roles_of(const StrategySettings& settings, int ranks);
/// The beginning of a strategy's advice for busy servers.
std::string relief_by_servers(const StrategySettings& settings);
/// A rank's part of the examples where these roles are.
std::optional<Strategy::DataShard> data_shard(const Roles& roles, int rank);

/// What a strategy makes of workers and servers.
struct ServingPlan {
  Roles roles;
  std::vector<comm::Slice> places{};  ///< of the shards
  ServerSettings server{};
  /// \param run of this worker alone
  std::function<std::unique_ptr<ServedWorker>(const TrainContext& run, Client client)> make_worker{};
  /// \param statistics that this shard is to hold, too; none but for server 0 \param backend of servers, on the CPU
  std::function<std::unique_ptr<Shard>(comm::Slice place, MutableView statistics, kernels::Backend& backend)>
      make_shard{};
  std::int64_t alone_until = 0;   ///< worker 0 makes the steps before this one alone
  bool serves_optimizer = false;  ///< shards update θ by the run's optimizer, whose state is theirs
  /// At the end of each segment, on all ranks; may be empty.
  std::function<void(comm::Communicator& group, const Roles& roles)> at_meeting{};
};

/// Workers and servers on the ranks of a run, each on a thread of its own: trains segment after segment, at whose ends
/// all pushes are in θ, all ranks get all of it, and the observer sees one model.
class Serving {
 public:
  /// Collective.
  Serving(TrainContext& run, ServingPlan plan);
  /// Collective.
  void train();

 private:
  /// A worker, and what it counts.
  struct WorkerRole {
    int number;
    kernels::Backend& backend;  ///< that it computes with
    kernels::LossSums sums{};
    Seconds seconds{};
    std::unique_ptr<ServedWorker> worker{};
  };
  struct ServerRole {
    int number = 0;
    std::unique_ptr<Shard> shard;
    std::unique_ptr<Server> server;
    EventOrder order{};  ///< of the segment
  };

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
  std::unique_ptr<kernels::Backend> backend_;  ///< of this rank's servers
  std::vector<std::unique_ptr<WorkerRole>> workers_;
  std::vector<std::unique_ptr<ServerRole>> servers_;
  std::unique_ptr<ThreadTeam> team_;
  Index examples_ = 0;  ///< trained on until the last record, by all
};

}  // namespace unisono::strategies
