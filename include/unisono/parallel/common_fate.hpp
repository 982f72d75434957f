#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "unisono/comm/communicator.hpp"

namespace unisono::parallel {

/// Threads of a rank that wait for messages: when one of them fails, the waits of the others end. Thread-safe.
class CommonFate {
 public:
  explicit CommonFate(comm::Communicator& communicator) : communicator_(communicator) {}

  /// Waits for a request. \throws PeerFailure if a thread of this rank gave up meanwhile
  void wait(comm::Request& request) {
    const std::array one = {&request};
    wait_any(one);
    request.wait();
  }
  /// Waits until at least one of the requests is done, or `enough()` returns true. \param requests not empty
  /// \param enough as in Request::wait_unless; may be empty \return the indices of those that are done
  std::vector<std::size_t> wait_any(std::span<comm::Request* const> requests,
                                    const std::function<bool()>& enough = {}) {
    auto done = communicator_.wait_any(requests, [&] { return gave_up_.load() || (enough && enough()); });
    require_all();
    return done;
  }
  bool has_given_up() const { return gave_up_; }
  /// Checks that no thread of this rank gave up. \throws PeerFailure if one did
  void require_all() const {
    if (gave_up_) throw comm::PeerFailure("another thread of this rank failed");
  }

  /// Called by a thread that cannot go on.
  void give_up(std::exception_ptr cause) {
    {
      const std::lock_guard lock(mutex_);
      if (!cause_) cause_ = std::move(cause);
    }
    gave_up_ = true;
  }
  /// Rethrows the exception of the thread that gave up first, if any; the exceptions of other threads are consequences
  /// of it.
  void rethrow_cause() {
    const std::lock_guard lock(mutex_);
    if (cause_) std::rethrow_exception(cause_);
  }

 private:
  comm::Communicator& communicator_;
  std::atomic<bool> gave_up_ = false;
  std::mutex mutex_;
  std::exception_ptr cause_;
};

}  // namespace unisono::parallel
