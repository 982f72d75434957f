#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/server.hpp"
#include "server/shard.hpp"
#include "server/wire.hpp"
#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/parallel/counters.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// The part of a pull or push that concerns one server: values, and which rows they are of (empty: the whole shard).
struct ShardPart {
  MutableView values;
  std::span<const std::uint32_t> rows = {};
};

/// Cuts a vector of θ's size into the servers' parts. \param shards their ranges in θ
std::vector<ShardPart> parts_of(MutableView vector, const std::vector<comm::Slice>& shards);

/// What a pull returns in addition to the values.
struct Pulled {
  std::int64_t granted = 0;   ///< steps that the worker may make before its next pull
  std::int64_t complete = 0;  ///< the values contain at least so many of each worker's steps in this segment
};

/// A worker's side of the protocol (wire.hpp). At most one pull and one push are in flight, each to all servers.
class Client {
 public:
  Client(Wire& wire, int worker, int servers, Index statistics);

  /// \param parts by server; filled when finish_pull returns \param clock the worker's step that will use the values
  /// \param steps that the worker would make with them
  void start_pull(std::int64_t clock, std::int64_t steps, std::vector<ShardPart> parts, MutableView statistics);
  Pulled finish_pull();

  /// Waits for the previous push, and starts one. \param terms the push's Question, except for `ask`, `read` and
  /// `bytes` \param parts by server; must not change before finish_push
  void start_push(const Question& terms, const std::vector<ShardPart>& parts, View statistics);
  /// Starts a push of encoded values.
  void start_push(const Question& terms, const std::vector<std::span<const std::byte>>& messages, View statistics);
  void finish_push();

  int worker() const { return worker_; }
  /// Whether messages to this server go to another rank.
  bool is_remote(int server) const { return wire_.is_between_ranks(worker_, server); }

  /// Tells all servers that this worker makes no more steps in the segment.
  void leave();

  /// Seconds waited so far: for messages, and while servers held pulls back for other workers' pushes.
  double message_seconds() const { return message_seconds_; }
  double held_seconds() const { return held_seconds_; }

 private:
  struct Server {
    Question pull, push;
    Answer pulled, pushed;
    std::int64_t read = 0;  ///< version of the shard that the worker computes on
    std::vector<comm::RequestPtr> pulling, pushing;
  };
  void wait(std::vector<comm::RequestPtr>& requests);

  Wire& wire_;
  int worker_;
  bool has_statistics_;
  std::vector<Server> servers_;
  double message_seconds_ = 0, held_seconds_ = 0;
};

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
