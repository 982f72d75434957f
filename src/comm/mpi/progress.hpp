#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <vector>

#include "unisono/base/threads.hpp"

namespace unisono::comm::mpi {

/// Something that many ranks do together and that goes on in steps, none of which waits.
class Operation {
 public:
  virtual ~Operation() = default;
  /// Goes as far as it can without waiting. \return whether it is done
  virtual bool advance() = 0;
  /// Whether all ranks have begun it, as far as this one can tell.
  virtual bool all_arrived() { return true; }
  /// Gives up: receives nothing more. \return whether no peer can touch this rank's memory any more; call until it is
  /// so
  virtual bool let_go() { return true; }
};

/// The operations of this process that are under way. Whoever waits for one moves all, since a peer may wait for
/// another. One lock is held around every step and every call of MPI, so that MPI_THREAD_SERIALIZED is enough.
class Progress {
 public:
  /// One operation under way, for as long as it lives.
  class Entry {
   public:
    Entry(Progress& progress, Operation& operation);
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    /// Call with the lock held. \throws what the operation threw
    bool done() const;
    Operation& operation() { return operation_; }

   private:
    friend class Progress;
    Progress& progress_;
    Operation& operation_;
    bool done_ = false;
    std::exception_ptr error_;
  };

  ~Progress();

  std::mutex& mutex() { return mutex_; }
  /// Moves all operations a step; call with the lock held.
  void poll();

  /// Lets a thread of its own move the operations while this rank computes: needed between nodes, where MPI moves
  /// nothing unless it is called. It sleeps while nothing is under way, and else looks every 20 µs or as soon as the
  /// system's timer lets it.
  void start_thread();
  /// Before operations are given up.
  void stop_thread();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry*> entries_;
  bool stop_ = false;
  Threads thread_{"communication between nodes"};
};

}  // namespace unisono::comm::mpi
