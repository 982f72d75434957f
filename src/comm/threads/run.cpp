#include <exception>
#include <numeric>

#include "communicator.hpp"
#include "unisono/base/threads.hpp"

namespace unisono::comm {
namespace {

/// Keeps the first exception that is a cause of failure, or else the first that is only a consequence (PeerFailure).
class FirstError {
 public:
  void add(std::exception_ptr error, bool is_consequence) {
    const std::lock_guard lock(mutex_);
    std::exception_ptr& first = is_consequence ? consequence_ : cause_;
    if (!first) first = std::move(error);
  }
  void rethrow() const {
    if (cause_) std::rethrow_exception(cause_);
    if (consequence_) std::rethrow_exception(consequence_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr cause_, consequence_;
};

void run_rank(const std::shared_ptr<threads::Group>& group, int rank, const std::function<void(Communicator&)>& body,
              FirstError& errors) {
  try {
    threads::ThreadCommunicator communicator(group, rank);
    body(communicator);
  } catch (const PeerFailure&) {
    errors.add(std::current_exception(), true);
  } catch (const std::exception& error) {
    errors.add(std::current_exception(), false);
    group->world().fail("rank " + std::to_string(rank) + " failed: " + error.what());
  } catch (...) {
    errors.add(std::current_exception(), false);
    group->world().fail("rank " + std::to_string(rank) + " failed");
  }
  group->world().end(rank);
}

std::shared_ptr<threads::Group> make_group(int ranks, double timeout_seconds, int ranks_per_node = 0) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  return std::make_shared<threads::Group>(std::make_shared<threads::World>(ranks, timeout_seconds, ranks_per_node),
                                          members);
}

}  // namespace

void run_as_threads(int ranks, const std::function<void(Communicator&)>& body, double timeout_seconds,
                    int ranks_per_node) {
  const auto group = make_group(ranks, timeout_seconds, ranks_per_node);
  FirstError errors;
  Threads threads("ranks of one process", ranks);
  try {
    for (int rank = 0; rank < ranks; ++rank) {
      threads.start([&, rank] { run_rank(group, rank, body, errors); });
    }
  } catch (const std::exception& error) {
    group->world().fail(error.what());
    throw;
  }
  threads.join();
  errors.rethrow();
}

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<threads::ThreadCommunicator>(make_group(1, 300), 0);
}

}  // namespace unisono::comm
