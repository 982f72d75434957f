#include "unisono/session/hosts.hpp"

#include <fmt/format.h>

namespace unisono::session {

Hosts hosts_of(comm::Communicator& group) {
  return {.count = static_cast<int>(group.max(std::int64_t{group.node()})) + 1,
          .ranks = group.size(),
          .most_ranks = static_cast<int>(group.max(std::int64_t{group.node_size()}))};
}

std::string advice_on_hosts(const Seconds& seconds, const Hosts& hosts) {
  constexpr double kClearly = 0.95;
  if (hosts.count == 1) return "";
  const double all = seconds.sum() - seconds.evaluation - seconds.checkpoint;
  const double of_examples = seconds.compute + seconds.input, messages = seconds.exposed_communication;
  const double more = static_cast<double>(hosts.ranks) / hosts.most_ranks;
  const double alone = all - messages + (more - 1) * of_examples;
  if (alone <= 0 || alone > kClearly * all) return "";
  return fmt::format(
      "one of the {} hosts would be about {:.2g} times as fast without the others: its {} would compute {:.2g} times "
      "as much, but messages between hosts take {:.0f} % of the time",
      hosts.count, all / alone, count_of(hosts.most_ranks, "rank"), more, 100 * messages / all);
}

}  // namespace unisono::session
