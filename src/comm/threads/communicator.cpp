#include "unisono/comm/communicator.hpp"

#include <exception>
#include <numeric>

#include "meeting_communicator.hpp"
#include "unisono/base/threads.hpp"
#include "world.hpp"

// Ranks that are threads of this process. Whoever arrives last at a collective carries it out for all, under the
// world's lock: simple, and clean for the thread sanitizer. For tests, and for a rank that is alone.

namespace unisono::comm {
namespace {

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
  return std::make_unique<MeetingCommunicator<threads::Group>>(make_group(1, 300), 0);
}

}  // namespace unisono::comm
