#include <memory>
#include <utility>

#include "communicator.hpp"
#include "started.hpp"

// The two halves of an allreduce.

namespace unisono::comm::mpi {

/// Starts one of them.
template <typename OnNode, typename OnNodes, typename ByMessages>
RequestPtr MpiCommunicator::start_half(std::span<float> values, std::string_view name, Kind kind) {
  if (size() == 1 || values.empty()) return std::make_unique<NothingToDo>();
  const Place place = next(name);
  wait_for_room(place);
  std::uint64_t where = 0;
  std::unique_ptr<Operation> operation;
  if (auto window = board_ ? shared_->find(values) : std::nullopt) {
    where = window->place;
    const std::uint64_t previous = std::exchange(last_in_window_, place.sequence);
    if (topology_.one_node()) {
      operation = std::make_unique<OnNode>(*board_, std::move(*window), place.sequence, previous);
    } else {
      operation = std::make_unique<OnNodes>(*board_, std::move(*window), topology_, participants(place), place.sequence,
                                            previous);
    }
  } else {
    operation = std::make_unique<ByMessages>(participants(place), values);
  }
  arrive(place, kind, values.size(), where);
  return std::make_unique<Started>(*terms_.job, std::move(operation), place, &in_flight_);
}

RequestPtr MpiCommunicator::start_reduce_scatter_sum(std::span<float> values) {
  return start_half<NodeScatter, NodesScatter, MessageScatter>(values, "reduce_scatter_sum", Kind::scatter);
}

void MpiCommunicator::reduce_scatter_in_blocks(std::span<float> values, const Summed& summed) {
  auto window = board_ && topology_.one_node() && size() > 1 ? shared_->find(values) : std::nullopt;
  if (!window) return Communicator::reduce_scatter_in_blocks(values, summed);
  const Place place = next("reduce_scatter_sum");
  wait_for_room(place);
  const std::uint64_t where = window->place, previous = std::exchange(last_in_window_, place.sequence);
  NodeScatterInBlocks operation(*board_, std::move(*window), summed, place.sequence, previous);
  run(operation, place, Kind::scatter, values.size(), where);
}

RequestPtr MpiCommunicator::start_all_gather(std::span<float> values) {
  return start_half<NodeGather, NodesGather, MessageGather>(values, "all_gather", Kind::gather);
}

}  // namespace unisono::comm::mpi
