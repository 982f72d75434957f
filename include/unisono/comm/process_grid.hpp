#pragma once

#include <memory>

#include "unisono/comm/communicator.hpp"

namespace unisono::comm {

/// How many ranks a process grid has along each axis.
struct GridShape {
  int data = 1;    ///< replicas of the model, each with its own examples
  int stages = 1;  ///< consecutive pieces of the model, one behind the other in a pipeline
  int tensor = 1;  ///< ranks that share the work of one piece
  bool operator==(const GridShape&) const = default;
};

/// Where a rank is in the grid: its number along each axis.
struct GridPlace {
  int data = 0, stage = 0, tensor = 0;
  bool operator==(const GridPlace&) const = default;
};

/// The place of a rank. Ranks are numbered along the tensor axis first, then along the stages, then along the data:
///     rank = (data · stages + stage) · tensor parts + tensor
/// Launchers put ranks of neighbouring numbers on the same node. Tensor parts exchange several messages in each layer,
/// stages one message for each micro-batch, replicas one gradient for each step, most of it while they compute: ranks
/// that exchange most are closest together.
GridPlace place_of(const GridShape& shape, int rank);
/// The rank at a place.
int rank_of(const GridShape& shape, const GridPlace& place);

/// Ranks as data × stages × tensor, and the groups that collectives run on. Each axis has a group for every line of
/// ranks along it; a rank's number in a group is its number along that axis.
///
/// A group of all ranks is `all()` itself, and a group of one is `all().alone()`: a grid of P × 1 × 1 splits nothing.
/// Collectives of groups that are the same communicator must be called in the same order on all ranks. Destroying the
/// grid destroys its groups and waits for no other rank (see Communicator::split).
class ProcessGrid {
 public:
  /// Collective. \param all its ranks; outlives the grid
  /// \throws ConfigError for an axis of no ranks
  /// \throws LaunchError where the shape is not one of so many ranks
  ProcessGrid(Communicator& all, const GridShape& shape);

  const GridShape& shape() const { return shape_; }
  const GridPlace& place() const { return place_; }  ///< this rank's place

  Communicator& all() const { return all_; }
  /// The ranks that hold the same part of the model in different replicas.
  Communicator& data() const { return data_.group(all_); }
  /// All ranks of this rank's replica, stages × tensor.
  Communicator& replica() const { return replica_.group(all_); }
  /// The stages of this rank's replica, with the same tensor part.
  Communicator& pipeline() const { return pipeline_.group(all_); }
  /// The ranks that share the work of this rank's stage.
  Communicator& tensor() const { return tensor_.group(all_); }

 private:
  /// The group of one axis.
  class Axis {
   public:
    /// Collective. \param line which of the lines along the axis this rank is on \param number its number on the line
    Axis(Communicator& all, int extent, int line, int number);
    Communicator& group(Communicator& all) const { return own_ ? *own_ : all; }

   private:
    std::unique_ptr<Communicator> own_;  ///< null: all ranks
  };

  Communicator& all_;
  GridShape shape_;
  GridPlace place_;
  Axis data_, pipeline_, tensor_, replica_;
};

}  // namespace unisono::comm
