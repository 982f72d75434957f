#include "mpi/topology.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"

namespace unisono::comm::mpi {

int Topology::largest_node() const {
  std::size_t largest = 0;
  for (const auto& ranks : nodes) largest = std::max(largest, ranks.size());
  return static_cast<int>(largest);
}

int Topology::lanes() const {
  std::size_t smallest = nodes.front().size();
  for (const auto& ranks : nodes) smallest = std::min(smallest, ranks.size());
  return static_cast<int>(smallest);
}

std::vector<int> Topology::lane(int number) const {
  std::vector<int> carriers;
  for (const auto& ranks : nodes) carriers.push_back(ranks[static_cast<std::size_t>(number)]);
  return carriers;
}

Topology make_topology(const std::vector<std::int64_t>& node_of, int rank) {
  Topology topology;
  std::vector<std::int64_t> keys;  // of the nodes
  for (std::size_t r = 0; r < node_of.size(); ++r) {
    const auto node = static_cast<std::size_t>(std::find(keys.begin(), keys.end(), node_of[r]) - keys.begin());
    if (node == keys.size()) {
      keys.push_back(node_of[r]);
      topology.nodes.emplace_back();
    }
    if (static_cast<int>(r) == rank) {
      topology.node = static_cast<int>(node);
      topology.node_rank = static_cast<int>(topology.nodes[node].size());
    }
    topology.nodes[node].push_back(static_cast<int>(r));
  }
  return topology;
}

void check(int code, const char* call, const char* file, int line) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0, rank = -1;
  MPI_Error_string(code, text, &length);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const std::string_view path(file);
  throw CommunicationError(fmt::format("{} failed on rank {} ({}:{}): {}", call, rank,
                                       path.substr(path.find_last_of('/') + 1), line, std::string_view(text)));
}

}  // namespace unisono::comm::mpi
