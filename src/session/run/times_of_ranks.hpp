#pragma once

#include <string>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/parallel/step_terms.hpp"

namespace unisono::session {

/// When the ranks compute their gradients and have their messages, which `communication.record_times` asks for. All
/// count from the same moment. Ranks of a node share a clock. Those of other nodes ask rank 0 for its time, and take it
/// to have been read in the middle of the fastest question and answer (Cristian, "Probabilistic clock synchronization",
/// Distributed Computing 1989): they are wrong by half of these at most.
class TimesOfRanks {
 public:
  /// Begins. Collective. \param clock this node's, by which messages are noted, too
  explicit TimesOfRanks(comm::Communicator& group, const Clock& clock = steady_clock());

  /// Where this rank's gradients are to be noted, in seconds of its clock.
  std::vector<parallel::TimedGradient>& gradients() { return gradients_; }
  /// Writes gradients.jsonl and messages.jsonl, and ends; not messages.jsonl where there were none. Collective.
  void write(const std::string& folder);
  /// Removes both, where a resumed run would have those of a part only, and says so.
  static void forget(const comm::Communicator& group, const std::string& folder, Log& log);

 private:
  comm::Communicator& group_;
  double zero_;  ///< on this rank's clock
  std::vector<parallel::TimedGradient> gradients_;
};

}  // namespace unisono::session
