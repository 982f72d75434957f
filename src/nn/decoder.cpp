#include "unisono/nn/decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <stdexcept>
#include <utility>
#include <vector>

#include "graph.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

constexpr Index kRowsOfPrompt = 64;  ///< rows of a step, so that long prompts are read in few passes over the weights

/// The step of decoding of a node. \throws ConfigError
const Decodable& decodable(const Node& node) {
  const auto* const layer = dynamic_cast<const Decodable*>(node.layer.get());
  if (layer == nullptr) {
    throw ConfigError(
        fmt::format("layer '{}' has no step of decoding, so that the model generates no text", node.name));
  }
  try {
    layer->require_decodable();
  } catch (const ConfigError& error) {
    throw ConfigError(fmt::format("layer '{}': {}", node.name, error.what()));
  }
  return *layer;
}

/// Whether a block's stored order is the canonical one: only axes of length 1 change their places.
bool is_canonical(const Block& block) {
  if (block.stride != 0) return false;
  std::vector<int> longer;
  for (const int axis : block.axes) {
    if (block.shape[static_cast<std::size_t>(axis)] > 1) longer.push_back(axis);
  }
  return std::ranges::is_sorted(longer);
}

void require_canonical(const ParameterLayout& parameters) {
  if (std::ranges::all_of(parameters.blocks(), is_canonical)) return;
  throw std::invalid_argument("a decoder needs parameters in canonical order");
}

void require_language_model(const Network& network) {
  if (network.in().vocabulary > 0 && network.gives_loss()) return;
  throw ConfigError("the network is no language model: only those with an unembedding layer generate text");
}

}  // namespace

struct Decoder::Plan {
  struct Step {
    const Decodable& layer;
    Index width;  ///< values of a row of its outputs
    Buffer cache;
  };

  GraphPiece graph;
  MemorySchedule schedule;
  std::vector<Step> steps;     ///< of the nodes
  std::vector<Index> offsets;  ///< of the slots, in `memory`
  Buffer memory;

  Plan(const Graph& whole, Index rows, Index sequences);
  /// The first n rows of a tensor; empty for −1, the tokens, and what the last layer gives.
  MutableView tensor(int number, Index n);
};

Decoder::Plan::Plan(const Graph& whole, Index rows, Index sequences)
    : graph{whole, 0, static_cast<int>(whole.nodes.size())},
      schedule(make_memory_schedule(graph, PassKind::inference)) {
  for (const Node& node : whole.nodes) {
    const Decodable& layer = decodable(node);
    steps.push_back({layer, node.layer->out().extent.size(), Buffer(layer.cached_of_sequence() * sequences)});
  }
  std::vector<Index> sizes;
  for (const Slot& slot : schedule.slots) sizes.push_back(round_up_to_line(slot.extent.size() * rows));
  Arrangement arrangement = arrange(schedule.slots, sizes);
  offsets = std::move(arrangement.offsets);
  memory = Buffer(arrangement.floats);
}

MutableView Decoder::Plan::tensor(int number, Index n) {
  if (number <= 0 || number == graph.nodes()) return {};
  const auto slot = static_cast<std::size_t>(schedule.forward.activation[static_cast<std::size_t>(number)]);
  return memory.view().subspan(static_cast<std::size_t>(offsets[slot]),
                               static_cast<std::size_t>(n * steps[static_cast<std::size_t>(number) - 1].width));
}

Decoder::Decoder(const Network& network, kernels::Backend& backend, View theta, Index sequences)
    : network_(network),
      kernels_(kernels::kernels_of<kernels::DecodeKernels>(backend)),
      theta_(theta),
      sequences_(sequences),
      most_rows_(std::max(sequences, kRowsOfPrompt)) {
  require_language_model(network);
  plan_ = std::make_unique<Plan>(network.graph(), most_rows_, sequences);
  require_canonical(network.parameters());
}

Decoder::~Decoder() = default;

Index Decoder::bytes_of_sequence(const Network& network) {
  require_language_model(network);
  Index floats = 0;
  for (const Node& node : network.graph().nodes) floats += decodable(node).cached_of_sequence();
  return floats * static_cast<Index>(sizeof(float));
}

void Decoder::decode(std::span<const kernels::DecodeRow> rows, std::span<const std::int32_t> tokens,
                     MutableView logits) {
  assert(std::ssize(rows) <= most_rows_ && rows.size() == tokens.size());
  const DecodeStep step{kernels_, theta_, rows, tokens};
  const GraphPiece& graph = plan_->graph;
  const int last = graph.nodes() - 1;
  for (int i = 0; i < last; ++i) {
    Plan::Step& own = plan_->steps[static_cast<std::size_t>(i)];
    own.layer.decode(step, {.x = plan_->tensor(graph.input(i), step.size()),
                            .residual = plan_->tensor(graph.residual(i), step.size()),
                            .y = plan_->tensor(i + 1, step.size()),
                            .cache = own.cache.view()});
  }
  if (logits.empty()) return;
  const auto wanted = logits.size() / static_cast<std::size_t>(vocabulary());
  const View all = plan_->tensor(graph.input(last), step.size());
  const DecodeStep end{kernels_, theta_, rows.last(wanted), tokens.last(wanted)};
  plan_->steps.back().layer.decode(
      end, {.x = all.last(all.size() / rows.size() * wanted), .residual = {}, .y = logits, .cache = {}});
}

}  // namespace unisono::nn
