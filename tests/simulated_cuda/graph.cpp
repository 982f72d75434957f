// Graphs: recorded work that is given to a stream again and again.
#include <algorithm>

#include "simulated_cuda/machine.hpp"

namespace simulated {
namespace {

/// An order that keeps to what the nodes must come after and lets branches run one after the other.
/// \param last_branch_first  of branches that are joined; launches alternate, so that a missing fork or join shows
std::vector<std::size_t> order_of(const std::vector<Node>& nodes, bool last_branch_first) {
  std::vector<std::size_t> order;
  std::vector<int> state(nodes.size());  // 0: not seen, 1: on the stack with what it comes after, 2: in the order
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::vector<std::size_t> stack{last_branch_first ? nodes.size() - 1 - i : i};
    while (!stack.empty()) {
      const std::size_t node = stack.back();
      if (state[node] == 0) {
        state[node] = 1;
        const auto first = stack.size();
        for (const std::size_t before : nodes[node].after) {
          if (state[before] == 0) stack.push_back(before);
        }
        if (!last_branch_first) std::reverse(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end());
        continue;
      }
      stack.pop_back();
      if (state[node] == 1) order.push_back(node);
      state[node] = 2;
    }
  }
  return order;
}

/// One launch: runs every node whose predecessors are done, and comes back for those that wait for other ranks.
class RunGraph : public Work {
 public:
  explicit RunGraph(const GraphExec& graph) : nodes_(graph.nodes), order_(graph.orders[graph.launches % 2]) {}

  std::shared_ptr<void> begin() const override {
    auto launch = std::make_shared<Launch>();
    launch->done.resize(nodes_->size());
    for (const Node& node : *nodes_) launch->memories.push_back(node.work->begin());
    return launch;
  }

  Progress run(Session& session, void* memory) const override {
    Launch& launch = *static_cast<Launch*>(memory);
    bool moved = true;
    while (moved && launch.left(nodes_->size())) {
      moved = false;
      for (const std::size_t i : *order_) {
        const auto& after = (*nodes_)[i].after;
        const bool free = std::all_of(after.begin(), after.end(), [&](std::size_t n) { return launch.done[n]; });
        if (launch.done[i] || !free) continue;
        if (!(*nodes_)[i].work->run(session, launch.memories[i].get()).done) continue;
        launch.done[i] = true;
        ++launch.count;
        moved = true;
      }
    }
    return {!launch.left(nodes_->size()), nullptr};
  }

 private:
  struct Launch {
    std::vector<bool> done;
    std::size_t count = 0;
    std::vector<std::shared_ptr<void>> memories;
    bool left(std::size_t size) const { return count < size; }
  };
  std::shared_ptr<const std::vector<Node>> nodes_;
  std::shared_ptr<const std::vector<std::size_t>> order_;
};

cudaError_t instantiate(cudaGraphExec_t* executable, cudaGraph_t handle, unsigned long long flags) {
  Machine& m = machine();
  const auto graph = m.graphs.find(handle);
  if (!graph || executable == nullptr || flags != 0) return cudaErrorInvalidValue;
  if (m.fails(Call::instantiation)) return cudaErrorMemoryAllocation;
  auto result = std::make_shared<GraphExec>();
  result->nodes = std::make_shared<const std::vector<Node>>(graph->nodes);
  for (const bool last_branch_first : {true, false}) {
    auto order = std::make_shared<const std::vector<std::size_t>>(order_of(graph->nodes, last_branch_first));
    result->orders.push_back(std::move(order));
  }
  *executable = m.executables.add(std::move(result));
  return cudaSuccess;
}

/// Launches of one executable come one after the other, whatever their streams.
cudaError_t launch_graph(Session& session, cudaGraphExec_t handle, cudaStream_t stream_handle) {
  Machine& m = machine();
  const auto graph = m.executables.find(handle);
  const auto stream = find_stream(stream_handle);
  if (!graph) return cudaErrorInvalidValue;
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (stream->capture) {  // a child graph, which is not simulated
    invalidate(*stream->capture);
    return cudaErrorStreamCaptureUnsupported;
  }
  if (m.fails(Call::launch)) return cudaErrorLaunchOutOfResources;
  if (const auto error = implicit_while_capturing(*stream); error != cudaSuccess) return error;
  if (graph->last) enqueue_wait(session, stream, graph->last);
  enqueue(session, stream, std::make_shared<RunGraph>(*graph));
  graph->last = mark_end(session, stream);
  ++graph->launches;
  ++m.counts.graph_launches;
  return cudaSuccess;
}

cudaError_t nodes_of(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  const auto graph = machine().graphs.find(handle);
  if (!graph || count == nullptr) return cudaErrorInvalidValue;
  const std::size_t size = graph->nodes.size();
  for (std::size_t i = 0; nodes != nullptr && i < *count; ++i) {
    nodes[i] = i < size ? reinterpret_cast<cudaGraphNode_t>((i + 1) << 4) : nullptr;
  }
  *count = nodes == nullptr ? size : std::min(*count, size);
  return cudaSuccess;
}

}  // namespace
}  // namespace simulated

using namespace simulated;

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return call([&](Session&) { return instantiate(executable, graph, flags); });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return call([&](Session&) { return instantiate(executable, graph, flags); });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([&](Session& session) { return launch_graph(session, executable, stream); });
}
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return call([&](Session&) {
    if (!machine().executables.find(executable)) return cudaErrorInvalidValue;
    return find_stream(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call([&](Session&) { return machine().graphs.remove(graph) ? cudaSuccess : cudaErrorInvalidValue; });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call([&](Session&) { return machine().executables.remove(executable) ? cudaSuccess : cudaErrorInvalidValue; });
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return call([&](Session&) { return nodes_of(graph, nodes, count); });
}

}  // extern "C"
