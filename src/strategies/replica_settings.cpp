#include "unisono/strategies/replica_settings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/text.hpp"

namespace unisono::strategies {

void PlacementSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "first_layers",
                 .meaning = "the layer that each stage begins with, the network's first one included: [\"conv1\", "
                            "\"residual4\"]. With chunks, that of each piece, in the order of the layers: the stages "
                            "take them by turns. Empty: pieces of about equally many flops"},
                first_layers);
}

void ReplicaSettings::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "stages",
                 .meaning = "number of ranks that hold one copy of the model, a replica: each has some consecutive "
                            "layers, and micro-batches pass from stage to stage (a pipeline). The number of ranks must "
                            "be a multiple of it. 1: each rank holds the whole model",
                 .minimum = 1,
                 .maximum = 1 << 16},
                stages);
  visitor.variant({.name = "schedule", .meaning = "in which order a stage runs the passes of the micro-batches"},
                  schedule, kPipelineSchedules, {{PipelineSchedule::interleaved, [this](ConfigVisitor& inner) {
                                                    chunks = std::max<std::int64_t>(chunks, 2);
                                                    inner.field({.name = "chunks",
                                                                 .meaning = "pieces of the model that each stage holds",
                                                                 .minimum = 2,
                                                                 .maximum = 1 << 10},
                                                                chunks);
                                                  }}});
  if (schedule != PipelineSchedule::interleaved) chunks = 1;
  visitor.choice({.name = "recompute",
                  .meaning = "activations of a piece that are computed anew before its backward pass, to save memory"},
                 recompute, kRecompute);
  visitor.section({.name = "placement", .meaning = "which layers each stage holds"}, placement);
  const auto named = static_cast<std::int64_t>(placement.first_layers.size());
  visitor.require("placement", named == 0 || named == pieces(),
                  fmt::format("first_layers names {}, but there {} {} ({} × {}): name the layer that each piece begins "
                              "with, or remove first_layers",
                              count_of(named, "layer"), pieces() == 1 ? "is" : "are", count_of(pieces(), "piece"),
                              count_of(stages, "stage"), count_of(chunks, "chunk")));
}

}  // namespace unisono::strategies
