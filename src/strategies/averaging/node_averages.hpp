#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "unisono/base/counters.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::strategies {

/// Bytes of vectors that were averaged over the ranks of a node, between the averages of all ranks.
struct NodeAverageCounters {
  std::int64_t bytes = 0;

  void describe(CounterVisitor& visitor) { visitor.count({.name = "node_averaged_bytes", .unit = "bytes"}, bytes); }
  std::string text(const CounterTerms& terms) const { return terms.bytes_line("in nodes", bytes); }
};

/// The ranks of a node, which average more often than all ranks do; node_averages.cpp has the formula.
class NodeAverages {
 public:
  /// Collective. \param ranks all that are averaged; outlives this object
  explicit NodeAverages(comm::Communicator& ranks);

  /// The ranks of this rank's node.
  comm::Communicator& node() const { return own_ ? *own_ : ranks_; }
  /// Counts examples of this rank.
  void count(Index examples);
  /// This rank's weight in an average of its node, which is made now.
  double weight_in_node();
  /// This rank's weight in an average of all ranks, which is made now. One allreduce of 16 bytes within the node.
  /// Collective over the node.
  double weight_of_all();

 private:
  comm::Communicator& ranks_;
  std::unique_ptr<comm::Communicator> own_;  ///< null: all ranks are on one node
  Index since_average_ = 0;                  ///< n_r: examples since the last average of either kind
  Index since_average_of_all_ = 0;           ///< m_r
};

}  // namespace unisono::strategies
