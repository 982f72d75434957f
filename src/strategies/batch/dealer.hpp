#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "unisono/comm/communicator.hpp"

namespace unisono::strategies {

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

}  // namespace unisono::strategies
