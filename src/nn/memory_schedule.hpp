#pragma once

#include <vector>

#include "graph.hpp"
#include "unisono/nn/piece.hpp"

namespace unisono::nn {

/// Memory of one tensor, or of several in turn; needed from moment `first` to moment `last`, both included.
///
/// Moments of a piece of n nodes: 0 loads the inputs, i + 1 runs node i forward, n + 1 gives the outputs away and takes
/// their gradient, 2n + 1 − i runs node i backward; in halves 3n + 1 − i is its second half.
struct Slot {
  kernels::Extent extent;  ///< of an activation, or of the gradient with respect to one
  Index floats = 0;        ///< … or, where above 0, plain floats
  int first = 0, last = 0;
};

/// The backward pass of one node, in slots; −1: none.
struct BackwardStep {
  int dy = -1;  ///< −1: neither this node nor one before it has trainable parameters
  int copy_of =
      -1;  ///< slot that dy must be copied from first, because the layer changes dy and others need it unchanged
  int dx = -1;
  struct Sum {
    int from, to;       ///< to += from
    bool copy = false;  ///< … or to = from
  };
  std::vector<Sum> sums;  ///< after the layer: gradients that several readers of a tensor contribute to
};

/// Which of a piece's tensors share memory, and when each is needed. Independent of the size of the batch.
struct MemorySchedule {
  std::vector<Slot> slots;
  std::vector<int> activation;         ///< slot of each tensor
  std::vector<int> kept;               ///< slot of each node's kept floats; −1: none
  std::vector<int> carried;            ///< slot of each node's carried floats; −1: none
  std::vector<BackwardStep> backward;  ///< of each node; where training
  int output_gradient = -1;            ///< slot; where training
  int input_gradient = -1;             ///< slot; −1: not wanted
};

/// An activation is kept until backward only where a layer's traits ask for it.
MemorySchedule make_memory_schedule(const GraphPiece& piece, PassKind kind);

/// Offsets of slots in one buffer of `floats` floats, where slots that are needed at the same time do not overlap: the
/// largest is placed first, each as low as it fits. (Pisarchyk and Lee, "Efficient memory management for deep neural
/// net inference", 2020, greedy by size.)
struct Arrangement {
  std::vector<Index> offsets;
  Index floats = 0;
};
Arrangement arrange(const std::vector<Slot>& slots, const std::vector<Index>& sizes);

}  // namespace unisono::nn
