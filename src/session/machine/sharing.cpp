#include "machine/sharing.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "unisono/optim/optimizer.hpp"

namespace unisono::session {
namespace {

/// Hands out memory that the ranks of a node share.
class NodeMemory final : public Allocator {
 public:
  explicit NodeMemory(std::shared_ptr<std::byte> memory) : memory_(std::move(memory)) {}
  void* allocate(std::size_t) override { return memory_.get(); }
  void deallocate(void*) noexcept override { memory_.reset(); }

 private:
  std::shared_ptr<std::byte> memory_;
};

}  // namespace

bool shards_state(const ShardTerms& terms) {
  if (terms.replicas == 1) return false;
  const parallel::Sharding sharding = terms.strategy.sharding();
  if (sharding != parallel::Sharding::where_faster) return sharding == parallel::Sharding::always;
  const bool can = terms.shares_memory && terms.backend.device() == nullptr && terms.config.stages() == 1 &&
                   terms.config.communication.tree_leaves() == 0;
  return can &&
         parallel::are_faster_on_one_node(terms.model.layout().size(),
                                          optim::optimizer_state_vectors(terms.config.optimizer), terms.replicas);
}

std::optional<parallel::StateShards> make_state_shards(const ModelParts& parts, const settings::Config& config) {
  const comm::Communicator& replicas = parts.grid.data();
  if (!shards_state({.config = config,
                     .strategy = *parts.strategy,
                     .model = *parts.model,
                     .backend = *parts.backend,
                     .replicas = replicas.size(),
                     .shares_memory = replicas.shares_memory()})) {
    return {};
  }
  const Index floats = parts.replica->layout().size();
  // Of one θ, each rank has one slice.
  if (replicas.shares_memory()) return parallel::StateShards(floats, floats * Index{sizeof(float)}, replicas.size());
  const Index bucket = config.communication.bucket_bytes;
  return parallel::StateShards(floats, bucket > 0 ? bucket : replicas.bucket_bytes(), replicas.size());
}

Allocator& memory_of_parameters(ModelParts& parts) {
  if (parts.division != nullptr) return plain_allocator();
  comm::Communicator& replicas = parts.grid.data();
  // θ that will be shared needs no window before.
  return parts.state_shards && replicas.shares_memory() ? page_allocator() : replicas.shared_allocator();
}

void ModelParts::share_parameters() {
  comm::Communicator& replicas = grid.data();
  if (!state_shards || node_memory || !replicas.shares_memory()) return;
  auto memory = replicas.allocate_on_node(static_cast<std::size_t>(parameters.size()) * sizeof(float));
  if (memory == nullptr) return;
  node_memory = std::make_unique<NodeMemory>(std::move(memory));
  Buffer one(parameters.size(), *node_memory);
  for (const FloatRange& own : state_shards->ranges_of(replicas.rank())) {
    std::ranges::copy(part(View(parameters.view()), own), part(one.view(), own).begin());
  }
  replicas.barrier();
  parameters = std::move(one);
}

}  // namespace unisono::session
