#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <vector>

#include "batch/notes.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/parallel/common_fate.hpp"

namespace unisono::strategies {

/// Computes the portions of passes that the coordinator wants from this rank.
class PortionWorker {
 public:
  /// Computes a portion; calls `go_on` now and then, and stops where that returns false. \return whether it was
  /// finished
  using Compute = std::function<bool(int portion, const std::function<bool()>& go_on)>;

  /// \param waited seconds spent without work are added to this
  PortionWorker(comm::Communicator& workers, parallel::CommonFate& fate, int portions, double& waited,
                const Clock& clock);

  /// One pass: returns when every portion was finished by some rank.
  void work(std::int64_t pass, const Compute& compute);

 private:
  void listen();
  void read_notes();
  void wait_for_note();
  void obey(const Note& note);
  void say(const Note& note);

  struct Sent {
    Note note;
    comm::RequestPtr request;
  };

  comm::Communicator& workers_;
  parallel::CommonFate& fate_;
  double& waited_;
  const Clock& clock_;
  comm::Slice own_;  ///< with which the next pass begins
  std::deque<int> portions_;
  int current_ = -1;
  bool leave_current_ = false, over_ = false;
  Note heard_;
  comm::RequestPtr listening_;
  std::list<Sent> sent_;
};

}  // namespace unisono::strategies
