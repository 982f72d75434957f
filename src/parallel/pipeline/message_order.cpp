#include "pipeline/message_order.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "pipeline/simulate.hpp"

namespace unisono::parallel {
namespace {

/// The place of a message in the common order: when the pass that makes it ends, and on which stage.
using Place = std::pair<double, int>;

/// The messages of a program, and where its passes are in the common order.
class Messages {
 public:
  explicit Messages(const Program& program)
      : program_(program),
        simulated_(simulate(program, equal_costs(program.stages, program.chunks,
                                                 {.forward = 1, .backward_inputs = 1, .backward_weights = 1}))) {
    for (int stage = 0; stage < program.stages; ++stage) {
      const auto& operations = program.ranks[static_cast<std::size_t>(stage)];
      for (std::size_t i = 0; i < operations.size(); ++i) {
        const int piece = program.piece_of(stage, operations[i].chunk);
        if (program.target_of(piece, operations[i].kind)) places_[key(piece, operations[i])] = place_of(stage, i);
      }
    }
  }

  Place place_of(int stage, std::size_t operation) const {
    return {simulated_.times[static_cast<std::size_t>(stage)][operation].end, stage};
  }
  /// Of the message that an operation needs; null where it needs none.
  const Place* needed_by(int stage, const Operation& operation) const {
    const auto source = program_.source_of(program_.piece_of(stage, operation.chunk), operation.kind);
    return source ? &places_.at(key(*source, operation)) : nullptr;
  }

 private:
  using Key = std::tuple<int, bool, int>;  ///< the piece that makes it, whether it is forward, the micro-batch
  static Key key(int piece, const Operation& operation) {
    return {piece, operation.kind == OperationKind::forward, operation.micro_batch};
  }

  const Program& program_;
  Simulation simulated_;
  std::map<Key, Place> places_;
};

}  // namespace

MessageOrder message_order(const Program& program, int stage) {
  const Messages messages(program);
  const auto& operations = program.ranks[static_cast<std::size_t>(stage)];
  std::vector<std::pair<Place, std::size_t>> receives;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (const Place* const place = messages.needed_by(stage, operations[i])) receives.emplace_back(*place, i);
  }
  std::ranges::sort(receives);
  MessageOrder order;
  for (const auto& [place, operation] : receives) order.receives.push_back(operation);
  // What an operation makes comes after all that comes before it, and so does all that later operations make.
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const auto later =
        std::ranges::lower_bound(receives, messages.place_of(stage, i), {}, &std::pair<Place, std::size_t>::first);
    order.before.push_back(static_cast<std::size_t>(later - receives.begin()));
  }
  return order;
}

}  // namespace unisono::parallel
