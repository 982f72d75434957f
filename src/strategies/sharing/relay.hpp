#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/parallel/common_fate.hpp"
#include "unisono/parallel/exchange.hpp"

namespace unisono::strategies {

/// One rank's encoded update of θ.
struct SharedUpdate {
  int sender = 0;         ///< the rank that made it
  std::int64_t read = 0;  ///< how many updates the sender's θ contained when it computed this one
  std::int64_t bytes = 0;
  std::shared_ptr<std::vector<std::uint64_t>> words{};  ///< of the message; in 8 bytes each, so that it is aligned

  std::span<std::byte> message() const {
    return std::as_writable_bytes(std::span(*words)).first(static_cast<std::size_t>(bytes));
  }
};

/// The neighbours of a rank in a binary tree over all ranks: its parent and its children, as far as there are any.
std::vector<int> tree_neighbours(int rank, int ranks);

/// Brings every rank's updates to all other ranks, each exactly once, while they compute: a thread passes what comes
/// along an edge of the tree on along all other edges. Those of one rank arrive everywhere in their order. On rank 0 it
/// also deals out steps.
/// Cost per update: P − 1 messages of its length and as many of 24 bytes, up to three of each from one rank; it is
/// everywhere after at most 2 log2 P of them, one behind the other.
class Relay {
 public:
  explicit Relay(comm::Communicator& ranks);
  ~Relay() { give_up(nullptr); }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Begins a segment: until all ranks have left. \param steps that all ranks together get when they ask for them; 0:
  /// they do not ask
  void begin(std::int64_t steps);
  /// Whether this rank may make one more step: who asks first makes more. Waits for rank 0, unless many steps are left:
  /// then the next one is asked for while this one is made.
  bool ask_for_step();
  void share(SharedUpdate update);
  /// This rank shares no more in this segment. It then takes updates until there are no more, and calls `end`.
  void leave();

  /// The update that arrived first; none, if all that has arrived is taken.
  std::optional<SharedUpdate> take();
  /// Waits for one; none, if the segment has no more.
  std::optional<SharedUpdate> wait();
  /// Waits for the next one of this sender. \throws CheckpointError if the segment has no more of it
  SharedUpdate wait_for(int sender);
  /// Waits until all messages of the segment have been sent.
  void end();

  std::int64_t sent_bytes() const { return sent_bytes_; }      ///< after `end`
  std::int64_t sent_updates() const { return sent_updates_; }  ///< those that were passed on included; after `end`

 private:
  struct Header {
    std::int64_t sender, read, bytes;
  };
  /// An edge of the tree. It is closed in a direction when no more updates come that way.
  struct Edge {
    int peer;
    Header heard{};
    bool closed_in = false, closed_out = false;
  };
  struct Ask {
    int peer;
    std::byte heard{};
    std::int64_t left = 0;  ///< steps after the one that is granted; −1: none is
  };
  struct Pending {
    comm::RequestPtr request;
    std::function<void()> then;  ///< called when it is done; owns the memory that it uses
  };
  using Found = std::function<std::deque<SharedUpdate>::iterator(std::deque<SharedUpdate>& arrived)>;

  void give_up(std::exception_ptr cause);
  void run(bool deals);
  void when(comm::RequestPtr request, std::function<void()> then) {
    pending_.push_back({std::move(request), std::move(then)});
  }
  void finish_some();
  void listen(Edge& edge);
  void hear(Edge& edge);
  void listen(Ask& ask);
  void arrive(SharedUpdate update);
  void send_own();
  void send(Edge& edge, const SharedUpdate& update);
  void send_header(int peer, const Header& header);
  void pass_on(const SharedUpdate& update, const Edge* from);
  void close_edges();
  std::int64_t grant() { return to_grant_.fetch_sub(1) - 1; }
  void start_asking();
  std::optional<SharedUpdate> wait_until_found(const Found& find);

  comm::Communicator& ranks_;
  parallel::CommonFate fate_;
  std::vector<Edge> edges_{};
  std::vector<Ask> asks_{};
  std::vector<Pending> pending_{};
  std::int64_t sent_bytes_ = 0, sent_updates_ = 0;
  std::atomic<std::int64_t> to_grant_ = 0;
  std::byte asked_{};
  std::int64_t left_ = 0;  ///< as Ask::left, in the answer to this rank
  comm::RequestPtr question_{}, answer_{};
  std::atomic<bool> has_news_ = false;  ///< of this rank for the thread

  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::deque<SharedUpdate> own_{}, arrived_{};  ///< to be sent; to be taken
  bool has_left_ = false, all_arrived_ = false;

  parallel::Background background_{"shared updates"};  ///< ends before all that it uses
  comm::RequestPtr running_{};
};

}  // namespace unisono::strategies
