#pragma once

#include <list>
#include <span>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/comm/sum_tree.hpp"
#include "unisono/kernels/update_kernels.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::strategies {

/// The gradients of the portions that this rank has computed in a pass, added up as far as the tree of all portions
/// allows: two neighbouring nodes become one. Consecutive portions thus take few vectors, and the sum of all ranks'
/// nodes has the same bits whoever computed what.
class Subtrees {
 public:
  /// \param size floats of a gradient
  Subtrees(int portions, Index size, kernels::VectorKernels& kernels)
      : tree_(portions), size_(size), kernels_(kernels) {}

  const comm::SumTree& tree() const { return tree_; }
  /// A vector of zeros for the next portion's gradient, until `add`.
  MutableView leaf();
  /// Makes the vector of `leaf` that of this portion, which is not yet in any node.
  void add(int portion);
  /// Forgets all nodes, and keeps their memory.
  void clear();

  /// The nodes now, in the order of their leaves, and their vectors.
  std::vector<comm::SumTree::Node> nodes() const;
  std::vector<View> vectors() const;
  /// The most vectors that were in use so far, that of a portion in progress included.
  int most_vectors() const { return static_cast<int>(buffers_.size()); }

 private:
  struct Held {
    comm::SumTree::Node node;
    Buffer* values;
  };
  Buffer* take_buffer();
  void insert(Held held);

  comm::SumTree tree_;
  Index size_;
  kernels::VectorKernels& kernels_;
  std::list<Buffer> buffers_;
  std::vector<Buffer*> free_;
  Buffer* leaf_ = nullptr;
  std::vector<Held> held_;  ///< in the order of their leaves
};

/// shard ← this rank's shard of the sum. Collective; the bits do not depend on which rank holds which node.
/// A rank sends its nodes' shards straight to their owners: n · 4N (P − 1)/P bytes, for n of its nodes in the sum.
/// \param order the same on all ranks \param vectors this rank's nodes, each [shards.size()]
/// \return the bytes that this rank sent
std::int64_t sum_to_shards(comm::Communicator& ranks, const comm::TreeSum& order, std::span<const View> vectors,
                           const VectorShards& shards, MutableView shard);

/// whole ← all ranks' shards. Collective. A rank sends its shard to all others: 4N (P − 1)/P bytes.
/// \return the bytes that this rank sent
std::int64_t gather_shards(comm::Communicator& ranks, const VectorShards& shards, View shard, MutableView whole);

}  // namespace unisono::strategies
