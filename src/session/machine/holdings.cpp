#include "unisono/session/holdings.hpp"

#include "unisono/optim/catalog.hpp"
#include "unisono/parallel/slice_holding.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::session {
namespace {

std::shared_ptr<Holding> parameters_of(const HoldingTerms& terms) {
  if (terms.rows) return terms.rows;
  if (terms.stages == nullptr) return std::make_shared<WholeHolding>(terms.model.layout());
  return std::make_shared<MapHolding>(terms.stages->parameters(), terms.rank, terms.squares_of_replica);
}

std::shared_ptr<const Holding> statistics_of(const HoldingTerms& terms) {
  if (terms.stages == nullptr) return std::make_shared<WholeHolding>(terms.model.statistics_layout());
  return std::make_shared<MapHolding>(terms.stages->statistics(), terms.rank, terms.squares_of_replica);
}

/// Whether each replica keeps a part of the optimizer's state, and makes that part of a step.
bool shards_state(const HoldingTerms& terms) {
  if (terms.replicas == 1) return false;
  const parallel::Sharding sharding = terms.strategy.sharding();
  if (sharding != parallel::Sharding::where_faster) return sharding == parallel::Sharding::always;
  const bool can = terms.shares_memory && terms.backend.device() == nullptr && terms.config.stages() == 1 &&
                   terms.config.communication.tree_leaves() == 0;
  return can &&
         parallel::are_faster_on_one_node(terms.model.layout().size(),
                                          optim::optimizer_state_vectors(terms.config.optimizer), terms.replicas);
}

/// \param floats of θ on this rank
parallel::StateShards state_shards_of(const HoldingTerms& terms, Index floats) {
  // Of one θ, each rank has one slice.
  if (terms.shares_memory) return {floats, floats * Index{sizeof(float)}, terms.replicas};
  const Index bucket = terms.config.communication.bucket_bytes;
  return {floats, bucket > 0 ? bucket : terms.usual_bucket, terms.replicas};
}

}  // namespace

Holdings make_holdings(const HoldingTerms& terms) {
  using Place = parallel::SliceHolding::Place;
  Holdings held;
  held.parameters = parameters_of(terms);
  held.statistics = statistics_of(terms);
  const auto slices = [&](const std::vector<FloatRange>& own, Place place) {
    return std::make_shared<parallel::SliceHolding>(held.parameters, own, place, &terms.squares_of_all);
  };
  held.gradient = held.state = held.parameters;
  if (shards_state(terms)) {
    held.state_shards = state_shards_of(terms, held.parameters->size());
    const std::vector<FloatRange> own = held.state_shards->ranges_of(terms.replica);
    held.gradient = slices(own, Place::in_place);
    held.state = slices(own, Place::packed);
  } else if (terms.config.whole_batch() && terms.replicas > 1) {
    const VectorShards shards(held.parameters->size(), terms.replicas);
    held.state = slices({shards.shard(terms.replica)}, Place::packed);
  }
  return held;
}

}  // namespace unisono::session
