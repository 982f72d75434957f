#include "unisono/parallel/replica.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>
#include <set>

#include "unisono/base/errors.hpp"

namespace unisono::parallel {

namespace {

/// "2 GiB", "600MiB" or "1.5 GB" in bytes; nothing for other texts.
std::optional<double> bytes_of(const std::string& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {{"B", 1},        {"KiB", 0x1p10}, {"MiB", 0x1p20},
                                                            {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"kB", 1e3},
                                                            {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc{} || !(number > 0)) return {};
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto found = std::ranges::find(kUnits, unit, &std::pair<std::string_view, double>::first);
  if (found == std::end(kUnits)) return {};
  return number * found->second;
}

bool is_permutation(const std::vector<std::int64_t>& ranks) {
  const std::set<std::int64_t> different(ranks.begin(), ranks.end());
  return different.size() == ranks.size() && *different.begin() == 0 && *different.rbegin() + 1 == std::ssize(ranks);
}

}  // namespace

std::vector<double> PlacementSettings::memory_bytes() const {
  std::vector<double> bytes;
  for (const std::string& text : memory) bytes.push_back(bytes_of(text).value_or(0));
  return bytes;
}

void PlacementSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "first_layers",
                 .meaning = "the layer that each stage begins with, the network's first one included: [\"conv1\", "
                            "\"residual4\"]. With chunks, that of each piece, in the order of the layers: the stages "
                            "take them by turns. Empty: pieces of about equally many flops"},
                first_layers);
  visitor.field({.name = "ranks",
                 .meaning = "which of a replica's ranks runs each stage: [1, 0]. Empty: in their order; chosen where "
                            "something is chosen automatically, and there is one replica",
                 .range = at_least(0)},
                ranks);
  visitor.require("ranks", ranks.empty() || is_permutation(ranks),
                  "ranks must name each of a replica's ranks once, from 0 on");
  visitor.field(
      {.name = "memory",
       .meaning = "how much memory a rank may take, for each of all ranks or of one replica's: [\"2 GiB\", "
                  "\"6 GiB\"]. Empty: what is free there, the least of its control group, its resource limits "
                  "and its part of the node's memory"},
      memory);
  visitor.require("memory", std::ranges::all_of(memory, [](const auto& text) { return bytes_of(text).has_value(); }),
                  "memory is a list of sizes above 0, each with its unit: \"600 MiB\", \"2 GiB\" or \"1.5 GB\"");
  visitor.numbers_or({.name = "speed",
                      .meaning = "how fast the ranks are; a list has their GFLOP/s, for each of all ranks or of one "
                                 "replica's, of which only the ratios matter",
                      .range = above(0)},
                     speeds, speed, kSpeeds);
}

void ReplicaSettings::describe(ConfigVisitor& visitor) {
  visitor.number_or(
      {.name = "stages",
       .meaning = "number of ranks that hold one copy of the model, a replica: each has some consecutive "
                  "layers, and micro-batches pass from stage to stage (a pipeline). The number of ranks must "
                  "be a multiple of it. 1: each rank holds the whole model",
       .range = at_least(1).at_most(1 << 16)},
      stages, {"auto", "the number, of those that divide the ranks, with the shortest step that memory allows"});
  visitor.variant({.name = "schedule", .meaning = "in which order a stage runs the passes of the micro-batches"},
                  schedule, kPipelineSchedules, {{PipelineSchedule::interleaved, [this](ConfigVisitor& inner) {
                                                    chunks = std::max<std::int64_t>(chunks, 2);
                                                    inner.field({.name = "chunks",
                                                                 .meaning = "pieces of the model that each stage holds",
                                                                 .range = at_least(2).at_most(1 << 10)},
                                                                chunks);
                                                  }}});
  if (schedule != PipelineSchedule::interleaved) chunks = 1;
  visitor.choice(
      {.name = "recompute",
       .meaning =
           "activations that are computed anew for the backward pass, to save memory. It takes up to a third more "
           "computation, and changes no bit"},
      recompute, kRecompute);
  visitor.field(
      {.name = "tensor",
       .meaning = "number of ranks that share the work of each layer (tensor parallelism, Shoeybi et al. 2019): "
                  "attention by heads, two dense layers by the values between them, embedding and "
                  "unembedding by the vocabulary. A replica then has stages × tensor ranks",
       .range = at_least(1).at_most(1 << 12)},
      tensor);
  visitor.field(
      {.name = "tensor_leaves",
       .meaning = "parts of each layer whose results are added up in a fixed order, so that a run on CPUs has "
                  "the same bits for every `tensor` that divides it into powers of two, and for tensor = 1. "
                  "0: as many as `tensor`",
       .range = at_least(0).at_most(1 << 12)},
      tensor_leaves);
  const std::int64_t held = tensor_leaves / std::max<std::int64_t>(1, tensor);
  visitor.require("tensor_leaves", tensor_leaves == 0 || (tensor_leaves % tensor == 0 && tensor_leaves >= tensor),
                  fmt::format("tensor_leaves = {} is no multiple of tensor = {}", tensor_leaves, tensor));
  visitor.require(
      "tensor_leaves", tensor == 1 || held == 0 || std::has_single_bit(static_cast<std::uint64_t>(held)),
      fmt::format("each of {} ranks would have {} of {} parts, but their number must be a power of two: use a "
                  "tensor_leaves that is tensor × 1, 2, 4, 8, …",
                  tensor, held, tensor_leaves));
  visitor.section({.name = "placement", .meaning = "which layers each stage holds"}, placement);
  const auto named = static_cast<std::int64_t>(placement.first_layers.size());
  visitor.require("placement", named == 0 || stages > 0,
                  "first_layers cuts the model by hand, but stages = \"auto\" chooses the cuts: set replica.stages to "
                  "the number of stages, or replica.placement.first_layers to []");
  visitor.require("placement", placement.ranks.empty() || stages > 0,
                  "ranks says which rank runs each stage, but stages = \"auto\" chooses how many there are: set "
                  "replica.stages to their number, or replica.placement.ranks to []");
  visitor.require(
      "placement", placement.ranks.empty() || stages == 0 || std::ssize(placement.ranks) == stages,
      fmt::format("ranks names {}, but there {} {}: name one for each stage, or set replica.placement.ranks to []",
                  count_of(std::ssize(placement.ranks), "rank"), stages == 1 ? "is" : "are",
                  count_of(stages, "stage")));
  visitor.require("placement", named == 0 || named == pieces(),
                  fmt::format("first_layers names {}, but there {} {} ({} × {}): name the layer that each piece begins "
                              "with, or set replica.placement.first_layers to []",
                              count_of(named, "layer"), pieces() == 1 ? "is" : "are", count_of(pieces(), "piece"),
                              count_of(stages, "stage"), count_of(chunks, "chunk")));
}

bool ReplicaSettings::asks_for_placement() const {
  return stages == 0 || recompute == Recompute::automatic || !placement.memory.empty() || placement.has_speeds();
}

}  // namespace unisono::parallel
