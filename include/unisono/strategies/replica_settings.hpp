#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/strategies/pipeline_schedule.hpp"

namespace unisono::strategies {

/// Which activations of a piece are computed anew before its backward pass, instead of kept from its forward pass.
enum class Recompute { none, all };

inline constexpr Named<Recompute> kRecompute[] = {
    {Recompute::none, "none", "all activations are kept"},
    {Recompute::all, "all", "only a piece's inputs are kept; its forward pass runs twice"}};

/// `[replica.placement]`: which layers each stage holds.
struct PlacementSettings {
  std::vector<std::string> first_layers;  ///< of the pieces, in their order; empty: chosen automatically
  void describe(ConfigVisitor& visitor);
};

/// `[replica]`: the ranks that hold one copy of the model.
struct ReplicaSettings {
  std::int64_t stages = 1;
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  std::int64_t chunks = 1;  ///< pieces of the model that each stage holds; at least 2 where interleaved, else 1
  Recompute recompute = Recompute::none;
  PlacementSettings placement;
  void describe(ConfigVisitor& visitor);

  /// How many pieces the model is divided into.
  std::int64_t pieces() const { return stages * chunks; }
};

}  // namespace unisono::strategies
