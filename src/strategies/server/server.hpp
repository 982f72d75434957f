#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "server/event_order.hpp"
#include "server/shard.hpp"
#include "server/wire.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/strategies/serving.hpp"

namespace unisono::strategies {

/// What a pull may miss of what others have pushed.
enum class Consistency {
  asynchronous,  ///< anything
  bounded,       ///< all but each worker's last `staleness` steps are in it: stale synchronous parallel
  synchronous,   ///< nothing; the workers' pushes of a step make one update
};

/// Steps that are made without a meeting of all ranks.
struct Segment {
  std::int64_t first = 0, last = 0;  ///< of the run's steps
  int active = 1;                    ///< workers 0 … take part
  /// Of each of these; asynchronous workers make as many together as these are, whoever comes first.
  std::int64_t steps = 0;

  /// Which of the run's steps a worker's is that has made so many of its own in this segment.
  std::int64_t step_at(std::int64_t clock) const {
    return first + std::min(clock * (last - first) / steps, last - first - 1);
  }
};

/// What servers are told.
struct ServerSettings {
  Consistency consistency = Consistency::asynchronous;
  std::int64_t staleness = 0;   ///< bounded
  std::int64_t kept_reads = 0;  ///< of each worker's reads the last ones stay, to be compared with
};

/// Serves one shard to all workers, in the order in which they ask, as far as the consistency allows.
class Server {
 public:
  Server(Wire& wire, const Roles& roles, int number, Shard& shard, ServerSettings settings);

  /// Until all workers of the segment have left.
  void serve(const Segment& segment, EventOrder& order);

  const ServerCounters& counters() const { return counters_; }

 private:
  /// What a worker computes on.
  struct Read {
    std::int64_t version;
    std::shared_ptr<const Buffer> values;
  };
  /// On its way to a worker.
  struct Reply {
    Answer answer;
    std::shared_ptr<const Buffer> values = nullptr;
    std::vector<float> statistics = {};
  };

  /// What a worker asks, and what belongs to it.
  struct Peer {
    Question heard, pull, push;  ///< the last ones
    std::vector<std::uint32_t> pulled_rows, pushed_rows;
    Buffer values;
    std::vector<float> statistics;
    std::vector<Read> read;  ///< the last ones, where they are kept
    std::int64_t clock = 0;  ///< steps that are in the shard
    Stopwatch since_pull;
  };
  struct Turn {
    int worker;
    Ask ask;
  };
  struct Pending {
    std::function<void()> then;  ///< holds what the request needs, and so ends after it
    comm::RequestPtr request;
  };

  void when(comm::RequestPtr request, std::function<void()> then);
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
  std::int64_t complete() const;
  Push push_of(Peer& peer) const;
  Peer& peer(int worker) { return peers_[static_cast<std::size_t>(worker)]; }

  Wire& wire_;
  int number_;
  Shard& shard_;
  ServerSettings settings_;
  Segment segment_;
  std::int64_t to_grant_ = 0;  ///< steps, asynchronous
  EventOrder* order_ = nullptr;
  std::vector<Peer> peers_;
  std::vector<Pending> pending_;
  std::vector<Turn> waiting_;  ///< in the order of their arrival
  ServerCounters counters_;
};

}  // namespace unisono::strategies
