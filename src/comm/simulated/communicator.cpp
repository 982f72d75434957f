#include "unisono/comm/simulated.hpp"

#include <cmath>
#include <numeric>
#include <stdexcept>

#include "simulated/group.hpp"

namespace unisono::comm {

RecordedArrivals::RecordedArrivals(std::span<const Arrival> arrivals) {
  for (const Arrival& one : arrivals) lines_[{one.from, one.to, one.tag}].seconds.push_back(one.seconds);
}

std::optional<double> RecordedArrivals::next(int from, int to, int tag) {
  const auto found = lines_.find({from, to, tag});
  if (found == lines_.end() || found->second.next == found->second.seconds.size()) {
    ++missing_;
    return std::nullopt;
  }
  ++followed_;
  return found->second.seconds[found->second.next++];
}

bool run_simulated(VirtualRuntime& runtime, int ranks, const SimulatedNetwork& network,
                   const std::function<void(Communicator&)>& body, double fails_at) {
  std::vector<int> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  const auto world = std::make_shared<simulated::World>(runtime, network, ranks);
  const auto group = std::make_shared<simulated::Group>(world, std::move(members));
  FirstError errors;
  bool has_failed = false;
  if (std::isfinite(fails_at)) {
    runtime.at(fails_at, [&has_failed, world] {
      has_failed = true;
      world->fail("a simulated host has failed");
    });
  }
  try {
    runtime.run(
        ranks, [&](int rank) { run_rank(group, rank, body, errors); }, [&] { world->fail_as_stuck(); });
  } catch (const std::logic_error&) {  // nobody goes on: what a rank has thrown says why
    errors.rethrow();
    throw;
  }
  has_failed ? errors.rethrow_cause() : errors.rethrow();
  return has_failed;
}

}  // namespace unisono::comm
