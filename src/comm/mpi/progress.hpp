#pragma once

#include <condition_variable>
#include <exception>
#include <mutex>
#include <vector>

#include "unisono/base/threads.hpp"

namespace unisono::comm::mpi {

/// A communication of several ranks that is carried out in steps, none of which blocks.
class Operation {
 public:
  virtual ~Operation() = default;
  /// Goes as far as it can without waiting. \return whether it is done
  virtual bool advance() = 0;
  /// Whether all ranks have begun it, as far as this one can tell.
  virtual bool all_arrived() { return true; }
  /// Abandons it: receives nothing more. \return whether no peer can access this rank's memory any more; call until
  /// true
  virtual bool let_go() { return true; }
};

/// The operations of this process that are under way. A wait for one of them advances all, since a peer may wait for
/// another. One lock is held around every step and every call of MPI, so that MPI_THREAD_SERIALIZED is enough.
class Progress {
 public:
  /// Keeps an operation among those under way, until it is done or the entry is destroyed.
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
  /// Advances all operations by a step; call with the lock held.
  void poll();

  /// Starts a thread that advances the operations while this rank computes. It is needed between nodes, where MPI makes
  /// progress only while one of its functions is called. The thread sleeps while nothing is under way; otherwise it
  /// polls every 20 µs, or as often as the system's timer allows.
  void start_thread();
  /// Called before operations are abandoned.
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
