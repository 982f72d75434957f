#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"

namespace unisono::parallel {

/// The order in which the stages of a pipeline run the passes of a step's micro-batches. A file for each, with its
/// paper, in src/parallel/pipeline/.
enum class PipelineSchedule { naive, gpipe, one_forward_one_backward, interleaved, zero_bubble };

inline constexpr Named<PipelineSchedule> kPipelineSchedules[] = {
    {PipelineSchedule::naive, "naive", "one stage works at a time; the least memory"},
    {PipelineSchedule::gpipe, "gpipe", "all forward passes, then all backward passes; the most memory"},
    {PipelineSchedule::one_forward_one_backward, "1f1b",
     "forward and backward passes in turn: as fast as gpipe, with at most as many activations as stages"},
    {PipelineSchedule::interleaved, "interleaved",
     "1f1b with several pieces of the model on each rank: shorter idle times, more messages and activations"},
    {PipelineSchedule::zero_bubble, "zero_bubble",
     "1f1b with the gradients of weights computed in the idle times (ZB-H1)"}};

/// Which activations of a piece are computed anew before its backward pass, instead of kept from its forward pass.
enum class Recompute { none, all, automatic };

inline constexpr Named<Recompute> kRecompute[] = {
    {Recompute::none, "none", "all activations are kept"},
    {Recompute::all, "all", "only a piece's inputs are kept; its forward pass runs twice"},
    {Recompute::automatic, "auto", "all where the model would not fit into memory otherwise, or be slower"}};

/// How fast the ranks are, for the placement of layers.
enum class Speed { flops, measured };

inline constexpr Named<Speed> kSpeeds[] = {
    {Speed::flops, "flops", "all ranks are equally fast, and a layer takes as long as its flops say"},
    {Speed::measured, "measured", "each rank times the passes of all layers before the run begins"}};

/// `[replica.placement]`: which layers each stage holds.
struct PlacementSettings {
  std::vector<std::string> first_layers = {};  ///< of the pieces, in their order; empty: chosen automatically
  std::vector<std::int64_t> ranks =
      {};  ///< which of a replica's ranks runs each stage; empty: in their order, or chosen
  std::vector<std::string> memory =
      {};                           ///< limits of the ranks, of all or of one replica's: "2 GiB"; empty: what is free
  Speed speed = Speed::flops;       ///< in force where there are no …
  std::vector<double> speeds = {};  ///< GFLOP/s of the ranks, of all or of one replica's
  void describe(ConfigVisitor& visitor);
  /// The limits in bytes.
  std::vector<double> memory_bytes() const;
  bool has_speeds() const { return speed != Speed::flops || !speeds.empty(); }
};

/// `[replica]`: the ranks that hold one copy of the model.
struct ReplicaSettings {
  std::int64_t stages = 1;  ///< 0: chosen automatically, before the replica is made
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  std::int64_t chunks = 1;  ///< pieces of the model that each stage holds; at least 2 where interleaved, else 1
  Recompute recompute = Recompute::none;
  PlacementSettings placement;
  void describe(ConfigVisitor& visitor);

  /// How many pieces the model is divided into.
  std::int64_t pieces() const { return stages * chunks; }
  /// Whether the placement of the layers is asked to choose something, or told about the ranks.
  bool asks_for_placement() const;
};

}  // namespace unisono::parallel
