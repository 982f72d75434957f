#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <span>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/comm/sum_tree.hpp"
#include "unisono/kernels/update_kernels.hpp"
#include "unisono/parallel/common_fate.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::strategies {

// The protocol of a pass over the training set, in notes of 32 bytes:
//
//     worker                                coordinator (a thread of rank 0)
//       finished  portion, seconds     →
//                       take  portions ←       compute these, too
//                      leave  portions ←       do not begin these; stop where one is in progress
//                       over  portions ←       the pass is complete; the next one begins with these
//       gone                           →       no more notes of this pass

struct Note {
  enum class Kind : std::int32_t { finished, gone, take, leave, over };
  Kind kind = Kind::gone;
  std::int32_t first = 0, last = 0;  ///< portions [first, last)
  std::int32_t padding = 0;
  std::int64_t pass = 0;
  double seconds = 0;  ///< finished: that the portion took
};

inline constexpr int kToCoordinator = 1, kToWorker = 2;  ///< tags

/// Decides which worker computes which portions of a pass over the training set. It neither sends messages nor
/// measures time.
///
/// A pass begins with consecutive portions for each worker, as many as its speed in earlier passes promises: the same
/// ones every time where speeds do not change, so that a worker has them in its cache. A worker that has finished its
/// own takes portions from the end of another's that would need longest for the rest. Where only portions in progress
/// are left, an idle worker also computes one of these, if it may well be the first to finish it; the loser is told to
/// leave it. A portion may thus be computed twice, but a pass is complete when each is finished once.
///   Dean et al., "Large scale distributed deep networks", NIPS 2012, section 4.2; backups as in Dean & Ghemawat,
///   "MapReduce", OSDI 2004.
class Dealer {
 public:
  struct Order {
    enum class Kind { take, leave };
    int worker = 0;
    Kind kind = Kind::take;
    comm::Slice portions;
  };

  /// \param backup whether portions in progress are given to idle workers, too
  Dealer(int portions, int workers, bool backup);

  /// Begins a pass at this time, with the portions of `own`.
  void begin(double now);
  /// The portions with which a worker begins the present pass, or, when that is complete, the next one.
  comm::Slice own(int worker) const { return own_[static_cast<std::size_t>(worker)]; }
  /// A worker has finished a portion, for which it took so many seconds.
  void finished(int worker, int portion, double seconds, double now);
  bool is_complete() const { return open_ == 0; }
  /// What workers must be told now. To be called after `finished`, and at wake_time().
  std::vector<Order> orders(double now);
  /// When `orders` may have something to say although nobody has finished anything.
  double wake_time() const { return wake_time_; }
  /// Plans the next pass by the speeds that were seen. To be called when the pass is complete.
  void plan();

  std::int64_t moved() const { return moved_; }        ///< portions that were taken from another worker, so far
  std::int64_t repeated() const { return repeated_; }  ///< portions that were given to a second worker, so far

 private:
  struct Worker {
    std::deque<int> portions;  ///< that it has yet to finish, as far as is known; the first one is in progress
    double since = 0;          ///< when it began the one in progress
    double seconds = 0;        ///< for the portions that it has finished in this pass
    std::int64_t finished = 0;
    double rate = 0;  ///< portions per second; 0: unknown
  };
  double rate_of(const Worker& worker) const;
  double known_rate() const;
  void set_idle_to_work(int idle, double now, std::vector<Order>& orders);
  bool take_from_another(int idle, std::vector<Order>& orders);
  void repeat(int idle, double now, std::vector<Order>& orders);
  int holders(int portion) const;

  int portions_;
  bool backup_;
  std::vector<Worker> workers_;
  std::vector<comm::Slice> own_;
  std::vector<char> done_;
  std::vector<Order> pending_;
  int open_ = 0;  ///< portions that nobody has finished
  double wake_time_;
  std::int64_t moved_ = 0, repeated_ = 0;
};

/// Deals out the portions of passes to the workers, all ranks. It sends short notes, and never data.
/// Cost per pass: one note for each portion, and a few for those that are moved.
class Coordinator {
 public:
  Coordinator(comm::Communicator& workers, parallel::CommonFate& fate, Dealer dealer, const Clock& clock)
      : workers_(workers), fate_(fate), dealer_(std::move(dealer)), clock_(clock) {}

  /// Serves one pass, until all workers are gone. Runs on a thread of its own.
  void serve(std::int64_t pass);
  const Dealer& dealer() const { return dealer_; }

 private:
  void listen(int worker);
  void send(int worker, const Note& note);
  void send_orders();
  void hear(int worker);
  void handle_next();

  struct Sent {
    Note note;
    comm::RequestPtr request;
  };

  comm::Communicator& workers_;
  parallel::CommonFate& fate_;
  Dealer dealer_;
  const Clock& clock_;
  Stopwatch watch_{clock_};
  std::int64_t pass_ = 0;
  std::vector<Note> heard_;
  std::vector<comm::RequestPtr> listening_;  ///< by worker; null: it is gone
  std::deque<Sent> sent_;
  bool said_over_ = false;
};

/// Computes the portions of passes that the coordinator wants from this rank.
class PortionWorker {
 public:
  /// Computes a portion; calls `go_on` now and then, and stops where that returns false. \return whether it was
  /// finished
  using Compute = std::function<bool(int portion, const std::function<bool()>& go_on)>;

  /// \param waited seconds spent without work are added to this
  PortionWorker(comm::Communicator& workers, parallel::CommonFate& fate, int portions, double& waited,
                const Clock& clock);

  /// One pass: returns when every portion was finished by some rank.
  void work(std::int64_t pass, const Compute& compute);

 private:
  void listen();
  void read_notes();
  void wait_for_note();
  void obey(const Note& note);
  void say(const Note& note);

  struct Sent {
    Note note;
    comm::RequestPtr request;
  };

  comm::Communicator& workers_;
  parallel::CommonFate& fate_;
  double& waited_;
  const Clock& clock_;
  comm::Slice own_;  ///< with which the next pass begins
  std::deque<int> portions_;
  int current_ = -1;
  bool leave_current_ = false, over_ = false;
  Note heard_;
  comm::RequestPtr listening_;
  std::list<Sent> sent_;
};

/// The gradients of the portions that this rank has computed in a pass, added up as far as the tree of all portions
/// allows: two neighbouring nodes become one. Consecutive portions thus take few vectors, and the sum of all ranks'
/// nodes has the same bits whoever computed what.
class Subtrees {
 public:
  /// \param size floats of a gradient
  Subtrees(int portions, Index size, kernels::VectorKernels& kernels)
      : tree_(portions), size_(size), kernels_(kernels) {}

  const comm::SumTree& tree() const { return tree_; }
  /// A vector of zeros for the next portion's gradient, until `add`.
  MutableView leaf();
  /// Makes the vector of `leaf` that of this portion, which is not yet in any node.
  void add(int portion);
  /// Forgets all nodes, and keeps their memory.
  void clear();

  /// The nodes now, in the order of their leaves, and their vectors.
  std::vector<comm::SumTree::Node> nodes() const;
  std::vector<View> vectors() const;
  /// The most vectors that were in use so far, that of a portion in progress included.
  int most_vectors() const { return static_cast<int>(buffers_.size()); }

 private:
  struct Held {
    comm::SumTree::Node node;
    Buffer* values;
  };
  Buffer* take_buffer();
  void insert(Held held);

  comm::SumTree tree_;
  Index size_;
  kernels::VectorKernels& kernels_;
  std::list<Buffer> buffers_;
  std::vector<Buffer*> free_;
  Buffer* leaf_ = nullptr;
  std::vector<Held> held_;  ///< in the order of their leaves
};

/// shard ← this rank's shard of the sum. Collective; the bits do not depend on which rank holds which node.
/// A rank sends its nodes' shards straight to their owners: n · 4N (P − 1)/P bytes, for n of its nodes in the sum.
/// \param order the same on all ranks \param vectors this rank's nodes, each [shards.size()]
/// \return the bytes that this rank sent
std::int64_t sum_to_shards(comm::Communicator& ranks, const comm::TreeSum& order, std::span<const View> vectors,
                           const VectorShards& shards, MutableView shard);

/// whole ← all ranks' shards. Collective. A rank sends its shard to all others: 4N (P − 1)/P bytes.
/// \return the bytes that this rank sent
std::int64_t gather_shards(comm::Communicator& ranks, const VectorShards& shards, View shard, MutableView whole);

}  // namespace unisono::strategies
