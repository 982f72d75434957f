// Averages in two levels: often within a node, where messages are fast, and rarely between all ranks.
//     every `node_period` steps:   θ_r ← Σ_{s on the node of r} n_s θ_s / Σ_s n_s
//     every `period` steps:        θ ← Σ_r w_r θ_r / Σ_r w_r,     w_r = M n_r / N
//         n_r: examples of rank r since the last average of either kind; N: their sum over the node
//         M: examples of the node since the last average of all ranks
//   The second is the mean of the nodes' averages, each weighted by M: first within each node, then between the nodes,
//   in one allreduce. So an example counts as much as any other, whichever rank has it. Where a node had no example
//   since its own average, its ranks hold the same θ, and share M equally.
//   `node_period` = `period` is the plain average bit for bit, since then M = N and w_r = n_r.
//   Lin et al., "Don't use large mini-batches, use local SGD", ICLR 2020 (hierarchical local SGD).
// Cost: period / node_period − 1 allreduces of 4N bytes within the nodes and one of all ranks, per period.
#include "averaging/node_averages.hpp"

#include <array>
#include <utility>

namespace unisono::strategies {

NodeAverages::NodeAverages(comm::Communicator& ranks) : ranks_(ranks) {
  if (ranks.node_size() < ranks.size()) own_ = ranks.split(ranks.node(), ranks.rank());
}

void NodeAverages::count(Index examples) {
  since_average_ += examples;
  since_average_of_all_ += examples;
}

double NodeAverages::weight_in_node() { return static_cast<double>(std::exchange(since_average_, 0)); }

double NodeAverages::weight_of_all() {
  const auto own = static_cast<double>(std::exchange(since_average_, 0));
  std::array<double, 2> of_node = {own, static_cast<double>(std::exchange(since_average_of_all_, 0))};
  node().allreduce_sum(of_node);
  const auto [since_average, since_average_of_all] = of_node;
  if (since_average == 0) return since_average_of_all / node().size();
  return since_average_of_all * own / since_average;
}

}  // namespace unisono::strategies
