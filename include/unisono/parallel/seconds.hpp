#pragma once

namespace unisono::parallel {

/// Where the seconds of this rank went; they add up to the total. The strategy adds to the first six, the observer to
/// evaluation and checkpoint, and `other` is set to the rest where the total is known.
struct Seconds {
  double compute = 0;                ///< forward and backward passes, less the waiting for messages inside them
  double exposed_communication = 0;  ///< waiting for messages while all ranks are present
  double straggler_wait = 0;         ///< waiting for ranks that had not arrived yet
  double bubble = 0;                 ///< waiting for other stages of the pipeline
  double input = 0;                  ///< waiting for the batch source
  double optimizer = 0;
  double evaluation = 0, checkpoint = 0;
  double other = 0;

  double sum() const {
    return compute + exposed_communication + straggler_wait + bubble + input + optimizer + evaluation + checkpoint +
           other;
  }
};

}  // namespace unisono::parallel
