#include "machine/sharing.hpp"

#include <algorithm>
#include <memory>
#include <utility>

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

Allocator& memory_of_parameters(comm::Communicator& replicas, const Holdings& held) {
  // θ that will be shared needs no window before.
  return held.state_shards && replicas.shares_memory() ? page_allocator() : replicas.shared_allocator();
}

void ModelParts::share_parameters() {
  comm::Communicator& replicas = grid.data();
  if (!held.state_shards || node_memory || !replicas.shares_memory()) return;
  auto memory = replicas.allocate_on_node(static_cast<std::size_t>(parameters.size()) * sizeof(float));
  if (memory == nullptr) return;
  node_memory = std::make_unique<NodeMemory>(std::move(memory));
  Buffer one(parameters.size(), *node_memory);
  for (const FloatRange& own : held.state_shards->ranges_of(replicas.rank())) {
    std::ranges::copy(part(View(parameters.view()), own), part(one.view(), own).begin());
  }
  replicas.barrier();
  parameters = std::move(one);
}

}  // namespace unisono::session
