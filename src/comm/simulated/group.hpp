#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "meeting_communicator.hpp"
#include "simulated/network.hpp"
#include "unisono/base/virtual_runtime.hpp"

namespace unisono::comm::simulated {

/// What all simulated ranks share. All of them run on one thread: nothing here is locked.
struct World {
  World(VirtualRuntime& runtime_, const SimulatedNetwork& settings, int ranks)
      : runtime(runtime_), network(settings, runtime_, ranks), steps(static_cast<std::size_t>(ranks), -1) {}

  /// Makes all ranks that wait throw, and all that will. Only the first reason is kept.
  void fail(const std::string& reason);
  /// Called where all ranks wait, and nothing will come.
  void fail_as_stuck();
  /// Notes that a rank has ended.
  void end(int rank);

  VirtualRuntime& runtime;
  Network network;
  std::string failure = {};         ///< empty while all is well
  std::vector<std::int64_t> steps;  ///< last set_step of each rank; −1: none
  std::vector<int> ended = {};
};

/// A collective, or one side of a message between two ranks.
struct Rendezvous {
  const char* name = "";
  std::vector<void*> parts = {};  ///< of a collective, by rank of the group; null where a rank has not arrived
  std::size_t arrived = 0;
  bool done = false;
  std::string error = {};  ///< why it cannot happen
  /// Of a message's bytes, on a thread of the machine; it may go on after `done`. Null: they are where they belong.
  std::shared_ptr<StartedWork> copying = {};
  /// Is told the number when it is done; null: nobody is.
  std::shared_ptr<std::vector<std::size_t>> told = {};
  std::size_t number = 0;

  void finish() {
    done = true;
    if (told) told->push_back(number);
  }
};
using RendezvousPtr = std::shared_ptr<Rendezvous>;

/// The ranks of a communicator: the k-th collective of one is the k-th of all.
class Group : public Membership, public std::enable_shared_from_this<Group> {
 public:
  using Point = Rendezvous;
  class ReadySet;

  Group(std::shared_ptr<World> world, std::vector<int> members);

  World& world() { return *world_; }
  const std::shared_ptr<World>& shared_world() const { return world_; }
  Group& node_of(int rank) { return nodes_.empty() ? *this : *nodes_[static_cast<std::size_t>(place(rank).node)]; }
  std::string host(int rank) const;
  /// \throws PeerFailure where a host has failed: a rank without messages learns of it here
  void set_step(int rank, std::int64_t step);

  /// Joins this rank's next collective. Where it is the last to arrive, the collective begins.
  RendezvousPtr arrive(int rank, const Collective& collective, void* part, const Action& action);
  /// Posts a send or a receive. Short messages are under way from the moment of their send on, and are buffered; long
  /// ones when both sides have posted theirs.
  RendezvousPtr post(bool sends, std::span<std::byte> bytes, int rank, int peer, int tag);

  /// Blocks until it is done. \throws PeerFailure, CommunicationError
  void wait(const Rendezvous& rendezvous);
  /// Blocks until all have arrived.
  void wait_for_arrivals(const Rendezvous& rendezvous);
  bool test(const Rendezvous& rendezvous);
  /// Blocks until one of them is done, or `enough()`. \return the indices of those that are
  std::vector<std::size_t> wait_any(std::span<const Rendezvous* const> points, const std::function<bool()>& enough);
  void begin_arrivals() { world_->network.begin_arrivals(); }
  void watch(std::string_view name, const std::function<bool()>& done);
  /// Called where this rank's buffers are freed before it is done: it can never happen then.
  void abandon(const Rendezvous& rendezvous) noexcept;
  /// Blocks until `done()`. \throws PeerFailure where a rank has failed
  void block_until(const std::function<bool()>& done);

 private:
  /// A message, of which one side or both have been posted.
  struct Message {
    std::span<std::byte> source{}, target{};
    std::vector<std::byte> buffered = {};
    RendezvousPtr sent = {}, received = {};
    std::optional<double> recorded = {};  ///< when it arrives, if a recorded run says so
    bool has_arrived = false;             ///< a buffered one
  };
  using MessagePtr = std::shared_ptr<Message>;
  /// Between two ranks with one tag: those of which only one side has been posted, in the order of the posts.
  struct Line {
    std::deque<MessagePtr> unsent, unreceived;
  };
  struct LineKey {
    int from, to, tag;
    auto operator<=>(const LineKey&) const = default;
  };

  void check(const Rendezvous& rendezvous) const;
  bool is_over(const Rendezvous& rendezvous) const;
  void carry(const Message& message, int from, int to, std::function<void()> arrived);
  void deliver(const Message& message);
  void take_buffered(Message& message, int to);
  double now() const { return world_->runtime.seconds(); }

  std::shared_ptr<World> world_;
  std::vector<int> hosts_;                     ///< of the ranks, each once
  std::vector<std::shared_ptr<Group>> nodes_;  ///< empty: all ranks are on one
  std::vector<std::uint64_t> sequence_;        ///< collectives begun, by rank
  std::map<std::uint64_t, RendezvousPtr> points_;
  std::map<LineKey, Line> lines_;
};

/// Messages of a group, each of which says when it is done: however many there are, nobody looks for it.
class Group::ReadySet final : public RequestSet {
 public:
  explicit ReadySet(std::shared_ptr<Group> group) : group_(std::move(group)) {}

  std::size_t add(RequestPtr request) override;
  bool empty() const override { return used_ == 0; }
  std::vector<std::size_t> finish_some(const std::function<bool()>& enough) override;

 private:
  std::shared_ptr<Group> group_;
  std::shared_ptr<std::vector<std::size_t>> ready_ = std::make_shared<std::vector<std::size_t>>();
  std::vector<RequestPtr> requests_;  ///< by number
  std::vector<std::size_t> free_;
  std::size_t used_ = 0;
};

}  // namespace unisono::comm::simulated
