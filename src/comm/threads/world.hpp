#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "meeting_communicator.hpp"

namespace unisono::comm::threads {

/// The state that all ranks of one process share: one lock, which rank failed, which have ended.
struct World {
  World(int ranks, double timeout, int ranks_per_node_ = 0)
      : timeout_seconds(timeout),
        ranks_per_node(ranks_per_node_),
        ended(static_cast<std::size_t>(ranks)),
        steps(static_cast<std::size_t>(ranks), -1) {}

  /// Wakes all ranks that wait, and makes them throw. Only the first reason is kept.
  void fail(const std::string& reason);
  void fail_locked(const std::string& reason);
  /// Notes that a rank has ended: it takes part in nothing more.
  void end(int rank);

  std::mutex mutex;
  std::condition_variable changed;
  const double timeout_seconds;
  const int ranks_per_node;         ///< of simulated nodes; 0: all ranks are on one
  std::string failure;              ///< empty while all is well
  std::vector<bool> ended;          ///< by rank of the world
  std::vector<std::int64_t> steps;  ///< last set_step of each rank; −1: none
};

/// One collective, or one message between two ranks: the buffers of the ranks that have arrived, and whether it
/// happened.
struct Rendezvous {
  const char* name = "";
  std::vector<void*> parts;  ///< by rank of the group; null where a rank has not arrived
  std::size_t arrived = 0;
  bool done = false;
  std::string error = {};  ///< why it cannot happen
};
using RendezvousPtr = std::shared_ptr<Rendezvous>;

/// A send or receive that waits for its counterpart.
struct Post {
  int from = 0, to = 0, tag = 0;
  bool sends = false;
  std::span<std::byte> bytes;
  RendezvousPtr rendezvous;
};

/// The ranks of a communicator: the k-th collective of one is the k-th of all.
class Group : public Membership {
 public:
  using Point = Rendezvous;

  Group(std::shared_ptr<World> world, std::vector<int> members);

  World& world() { return *world_; }
  const std::shared_ptr<World>& shared_world() const { return world_; }
  /// The ranks of its node: this group where there is only one.
  Group& node_of(int rank) { return nodes_.empty() ? *this : *nodes_[static_cast<std::size_t>(place(rank).node)]; }

  std::string host(int rank) const;
  /// Notes the training step of a rank.
  void set_step(int rank, std::int64_t step);

  /// Joins this rank's next collective. Where it is the last to arrive, the collective happens now.
  RendezvousPtr arrive(int rank, const Collective& collective, void* part, const Action& action);
  /// Posts a send or a receive: the bytes are copied as soon as both sides have posted theirs.
  RendezvousPtr post(bool sends, std::span<std::byte> bytes, int rank, int peer, int tag);

  /// Blocks until it happened. \throws PeerFailure, CommunicationError
  void wait(const Rendezvous& rendezvous);
  /// Blocks until all have arrived or it happened.
  void wait_for_arrivals(const Rendezvous& rendezvous) { wait(rendezvous); }
  bool test(const Rendezvous& rendezvous);
  /// Blocks until one of them happened, or `enough()`. \return the indices of those that did
  std::vector<std::size_t> wait_any(std::span<const Rendezvous* const> rendezvous_points,
                                    const std::function<bool()>& enough);
  /// Blocks until `done()`. \throws PeerFailure where a rank failed, CommunicationError when the time is over
  void begin_arrivals() {}  // nobody records them
  void watch(std::string_view name, const std::function<bool()>& done);
  /// Called where this rank's buffers are freed before it happened: it can never happen then, and the whole world
  /// fails.
  void abandon(const Rendezvous& rendezvous) noexcept;

 private:
  bool is_over_locked(const Rendezvous& rendezvous) const;
  void check_locked(const Rendezvous& rendezvous);
  [[noreturn]] void time_out_locked(const Rendezvous& rendezvous);
  std::string missing_locked(const Rendezvous& rendezvous, bool ended_only) const;

  std::shared_ptr<World> world_;
  std::vector<std::shared_ptr<Group>> nodes_;                 ///< empty: all ranks are on one
  std::vector<std::uint64_t> sequence_;                       ///< collectives begun, by rank
  std::map<std::uint64_t, RendezvousPtr> rendezvous_points_;  ///< by sequence; those where some have not arrived
  std::list<Post> posts_;
};

}  // namespace unisono::comm::threads
