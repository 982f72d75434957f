#pragma once

#include <string>
#include <vector>

#include "unisono/nn/network.hpp"

namespace unisono::nn {

/// The vectors of a step of training.
enum class StepVector { workspace, parameters, gradient };

/// Floats [range.first, range.last) of a vector.
struct StepRange {
  StepVector of;
  FloatRange range;
};

/// What one pass of a layer computes, and what it cannot do without: the flops of products with weights, and the memory
/// that it must read and write at least once.
struct LayerWork {
  int node = 0;  ///< number of the layer in Graph::nodes
  std::string layer;
  bool is_backward = false;
  double flops = 0;
  std::vector<StepRange> reads, writes;
  FloatRange step = {};  ///< floats of θ whose step the pass makes, instead of writing their gradient
};

/// The passes of a step of training over a batch of one rank, in the order in which they run.
/// \param backend the one that the network was made for \param at_once whether backward passes make the steps that they
/// can make (Pass::step)
std::vector<LayerWork> work_of_step(const Network& network, const kernels::Backend& backend, Index batch,
                                    bool at_once = false);

}  // namespace unisono::nn
