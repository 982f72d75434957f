#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/event_order.hpp"
#include "server/shard.hpp"
#include "server/wire.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/counters.hpp"

namespace unisono::strategies {

/// What one server counts.
struct ServerCounters {
  std::int64_t pulls = 0, pushes = 0;
  std::int64_t pulled_bytes = 0, pushed_bytes = 0;
  double seconds = 0, idle_seconds = 0;  ///< in the serving loop, since the run began; of these, waiting for messages
  std::vector<Histogram> staleness;      ///< by worker: updates of the shard between its pull and its push
  std::vector<double> held_seconds;      ///< by worker: how long its pulls were held back until others had pushed
  bool by_worker = true;                 ///< false: these have one element for all workers together

  /// Of so many workers. What every rank knows of every worker would fill its memory where there are many.
  static ServerCounters of_workers(int workers) {
    constexpr int kMost = 128;
    ServerCounters counters;
    counters.by_worker = workers <= kMost;
    counters.staleness.resize(counters.by_worker ? static_cast<std::size_t>(workers) : 1);
    counters.held_seconds.resize(counters.staleness.size());
    return counters;
  }
  std::size_t place_of(int worker) const { return by_worker ? static_cast<std::size_t>(worker) : 0; }
};

/// One server's shard of θ, and its counters since the run began.
struct ServedShard {
  std::int64_t rank = 0, floats = 0;
  ServerCounters counters;

  /// The share of the server's time in which it did not wait for messages.
  double busy_share() const;
};

/// The parameter servers of a run, by their numbers; those of other ranks are all zeros.
struct ServingCounters {
  std::vector<ServedShard> shards;

  void describe(CounterVisitor& visitor);
  /// Lines of the summary, with advice on a server that is a bottleneck.
  std::string text(const CounterTerms& terms) const;
};

/// Which of the other workers' pushes a pull may miss.
enum class Consistency {
  asynchronous,  ///< any
  bounded,       ///< only each worker's last `staleness` steps: stale synchronous parallel
  synchronous,   ///< none; the workers' pushes of a step make one update
};

/// The settings of a server.
struct ServerSettings {
  Consistency consistency = Consistency::asynchronous;
  std::int64_t staleness = 0;   ///< with bounded: steps
  std::int64_t kept_reads = 0;  ///< how many of each worker's last pulled values are kept, for delay compensation
};

/// Serves one shard to all workers: handles their pulls and pushes in the order of arrival, as far as the consistency
/// allows.
class Server {
 public:
  /// \param code of the pushes; null: they are sent as they are
  Server(Wire& wire, const Roles& roles, int number, ServerShard& shard, ServerSettings settings,
         std::unique_ptr<const PushCode> code = nullptr);

  /// Runs until all active workers of the segment have left. Called by one thread.
  void serve(const Segment& segment, EventOrder& order);

  const ServerCounters& counters() const { return counters_; }

 private:
  /// Values that a worker has pulled and computes on.
  struct Read {
    std::int64_t version;
    std::shared_ptr<const Buffer> values;
  };
  /// A message in flight to a worker, and its memory.
  struct Reply {
    Answer answer;
    std::shared_ptr<const Buffer> values = nullptr;
    std::vector<float> statistics = {};
  };

  /// The server's state for one worker: its last questions, and the buffers of its messages.
  struct Peer {
    Question heard, pull, push;  ///< the question received last; the last pull and push
    std::vector<std::uint32_t> pulled_rows, pushed_rows;
    std::vector<std::byte> message;  ///< an encoded push
    Buffer values;
    std::vector<float> statistics;
    std::vector<Read> read;  ///< the last kept_reads ones
    std::int64_t clock = 0;  ///< the worker's steps in this segment whose pushes are in the shard
    Stopwatch since_pull;
  };
  struct Turn {
    int worker;
    Ask ask;
  };
  void send(int worker, Channel channel, std::span<const std::byte> bytes, std::shared_ptr<const Reply> of);
  void finish_some();
  void listen(int worker);
  void hear(int worker);
  void hear_pull(int worker);
  void hear_push(int worker);
  void has_come(int worker, Ask ask);

  bool take_turn();
  bool may_go(const Turn& turn) const;
  bool all_have_pushed() const;
  void apply(int worker);
  void apply_together();
  void acknowledge(int worker);
  void answer(int worker);
  std::int64_t grant(const Question& pull);
  /// The number of steps that every active worker has in the shard.
  std::int64_t complete() const { return least_.steps; }
  void advance(Peer& peer, std::int64_t clock);
  Push push_of(Peer& peer) const;
  MutableView values_of(Peer& peer) const;
  Peer& peer(int worker) { return peers_[static_cast<std::size_t>(worker)]; }

  Wire& wire_;
  int number_;
  ServerShard& shard_;
  ServerSettings settings_;
  std::unique_ptr<const PushCode> code_;
  Segment segment_;
  std::int64_t to_grant_ = 0;  ///< asynchronous: steps of the segment that are not granted yet
  EventOrder* order_ = nullptr;
  std::vector<Peer> peers_;
  /// The fewest steps that an active worker has in the shard, and how many workers have so few.
  struct Least {
    std::int64_t steps = 0;
    int workers = 0;
  } least_;
  parallel::Awaited awaited_;
  std::vector<Turn> waiting_;  ///< in the order of their arrival
  ServerCounters counters_;
};

}  // namespace unisono::strategies
