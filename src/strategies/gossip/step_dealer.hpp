#pragma once

#include <cstdint>
#include <vector>

#include "unisono/parallel/common_fate.hpp"

namespace unisono::strategies {

// Steps are dealt to whoever asks first: a rank asks rank 0 before each of its steps, and is told whether any is left.
// Two messages of a few bytes for each step.

/// A rank's side. Used by one thread at a time.
class StepPlayer {
 public:
  StepPlayer(comm::Communicator& ranks, parallel::CommonFate& fate) : ranks_(ranks), fate_(fate) {}

  void ask();
  /// Waits for the answer to `ask`. \return whether this rank is to make one more step of the segment
  bool is_given_one();

 private:
  comm::Communicator& ranks_;
  parallel::CommonFate& fate_;
  char question_ = 0;
  char given_ = 0;
  comm::RequestPtr asked_, answered_;
};

/// Rank 0's side: deals so many steps, and returns when every rank was told that none is left. Called on a thread of
/// its own.
void deal_steps(std::int64_t steps, comm::Communicator& ranks, parallel::CommonFate& fate);

}  // namespace unisono::strategies
