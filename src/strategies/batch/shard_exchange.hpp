#pragma once

#include <span>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/comm/sum_tree.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::strategies {

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
