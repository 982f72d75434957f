#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "unisono/kernels/compute_device.hpp"
#include "unisono/nn/layer_work.hpp"

namespace unisono::planning {

/// What a device can do at most, as measured.
struct Roofline {
  double flops_per_second = 0;
  std::vector<kernels::MemoryLevel> levels;  ///< from the nearest to the farthest
};

/// The least time that a pass of a layer can take: that of its flops at the device's peak, or that of its bytes from
/// and to one of the levels of memory which hold them, whichever is longest. What no pass can do without is counted,
/// and nothing else: each value that a layer needs is read once, and each value that it gives is written once.
struct Floor {
  std::string layer;  ///< "update": the optimizer's
  int node = -1;      ///< nn::LayerWork::node; −1: the optimizer's
  bool is_backward = false;
  double flops = 0, bytes = 0;
  double arithmetic_seconds = 0, memory_seconds = 0;
  std::string slowest;  ///< the level of memory that takes `memory_seconds`
  double seconds() const { return std::max(arithmetic_seconds, memory_seconds); }
  /// "arithmetic", or the slowest level.
  const std::string& bound() const;
};

/// The floors of the passes of a step, in their order, and that of the optimizer's update at the end. What a backward
/// pass computes anew is part of it. Which level holds what follows from the step itself: what was last touched n
/// distinct bytes ago is in the first level that holds n bytes, as if each level kept what was used last, and is
/// written back there. \param parameters floats of θ \param states vectors of the optimizer, each as long as θ
std::vector<Floor> floors_of(const std::vector<nn::LayerWork>& step, Index parameters, int states,
                             const Roofline& roofline);

}  // namespace unisono::planning
