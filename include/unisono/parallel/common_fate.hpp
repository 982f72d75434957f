#pragma once

#include <array>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
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

/// Messages that a thread awaits together, and what it does when each of them is done.
class Awaited {
 public:
  /// \param communicator, fate must outlive this object
  Awaited(comm::Communicator& communicator, CommonFate& fate) : fate_(fate), set_(communicator.make_request_set()) {}

  /// \param then owns the memory of the message
  void when(comm::RequestPtr request, std::function<void()> then) {
    const std::size_t number = set_->add(std::move(request));
    if (number >= thens_.size()) thens_.resize(number + 1);
    thens_[number] = std::move(then);
  }
  bool empty() const { return set_->empty(); }
  /// Blocks until at least one of the messages is done, or `enough()` returns true. \return what is to be done now
  /// \throws PeerFailure as CommonFate
  std::vector<std::function<void()>> finish_some(const std::function<bool()>& enough = {}) {
    std::vector<std::function<void()>> due;
    for (const std::size_t number : set_->finish_some([&] { return fate_.has_given_up() || (enough && enough()); })) {
      due.push_back(std::exchange(thens_[number], nullptr));
    }
    fate_.require_all();
    return due;
  }

 private:
  CommonFate& fate_;
  std::vector<std::function<void()>> thens_;  ///< by number; declared before the set, whose messages use their memory
  std::unique_ptr<comm::RequestSet> set_;
};

}  // namespace unisono::parallel
