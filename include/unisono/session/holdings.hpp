#pragma once

#include <memory>
#include <optional>

#include "unisono/parallel/replica.hpp"
#include "unisono/parallel/slice_holding.hpp"
#include "unisono/parallel/stages.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/strategies/strategy.hpp"
#include "unisono/tensor/holding.hpp"

namespace unisono::session {

/// What a rank holds of a run's vectors.
struct Holdings {
  std::shared_ptr<Holding> parameters;  ///< θ, each replica's g, the average of θ, and what strategies keep of θ's size
  std::shared_ptr<const Holding> statistics;  ///< the running statistics, and what is kept of their size
  std::shared_ptr<const Holding>
      gradient;                          ///< g as the optimizer gets it: all that a rank has of θ, or its slices of it
  std::shared_ptr<const Holding> state;  ///< each vector of the optimizer, or of a method for the whole set
  /// The buckets whose slices `gradient` and `state` are; empty: each replica keeps the optimizer's whole state.
  std::optional<parallel::StateShards> state_shards;
};

/// On what it depends what a rank holds. All but `rows` must outlive the holdings.
struct HoldingTerms {
  const settings::Config& config;
  const strategies::Strategy& strategy;
  const models::Model& model;
  kernels::Backend& backend;
  std::shared_ptr<parallel::RowHolding> rows = nullptr;  ///< what the strategy gives to the ranks; null: nothing
  const parallel::Stages* stages = nullptr;              ///< of each replica; null: it is one rank
  int rank = 0, replica = 0, replicas = 1;
  bool shares_memory = false;           ///< all replicas do; see Communicator::shares_memory
  Index usual_bucket = Index{1} << 20;  ///< bytes of a bucket, where neither config nor memory say
  SquaresReducer& squares_of_replica;   ///< over the ranks of this replica
  SquaresReducer& squares_of_all;       ///< over all ranks
};
Holdings make_holdings(const HoldingTerms& terms);

}  // namespace unisono::session
