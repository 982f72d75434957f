#include "unisono/comm/simulated.hpp"

#include <numeric>
#include <stdexcept>

#include "simulated/group.hpp"

namespace unisono::comm {

void run_simulated(VirtualRuntime& runtime, int ranks, const SimulatedNetwork& network,
                   const std::function<void(Communicator&)>& body) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  const auto world = std::make_shared<simulated::World>(runtime, network, ranks);
  const auto group = std::make_shared<simulated::Group>(world, std::move(members));
  FirstError errors;
  try {
    runtime.run(
        ranks, [&](int rank) { run_rank(group, rank, body, errors); }, [&] { world->fail_as_stuck(); });
  } catch (const std::logic_error&) {  // nobody goes on: what a rank has thrown says why
    errors.rethrow();
    throw;
  }
  errors.rethrow();
}

}  // namespace unisono::comm
