#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "batch/dealer.hpp"
#include "batch/notes.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/parallel/common_fate.hpp"

namespace unisono::strategies {

/// Deals out the portions of passes to the workers, all ranks. It sends short notes, and never data.
/// Cost per pass: one note for each portion, and a few for those that are moved.
class Coordinator {
 public:
  Coordinator(comm::Communicator& workers, parallel::CommonFate& fate, Dealer dealer, const Clock& clock)
      : workers_(workers), fate_(fate), dealer_(std::move(dealer)), clock_(clock) {}

  /// Serves one pass, until all workers are gone. Runs on a thread of its own.
  void serve(std::int64_t pass);
  const Dealer& dealer() const { return dealer_; }

 private:
  void listen(int worker);
  void send(int worker, const Note& note);
  void send_orders();
  void hear(int worker);
  void handle_next();

  struct Sent {
    Note note;
    comm::RequestPtr request;
  };

  comm::Communicator& workers_;
  parallel::CommonFate& fate_;
  Dealer dealer_;
  const Clock& clock_;
  Stopwatch watch_{clock_};
  std::int64_t pass_ = 0;
  std::vector<Note> heard_;
  std::vector<comm::RequestPtr> listening_;  ///< by worker; null: it is gone
  std::deque<Sent> sent_;
  bool said_over_ = false;
};

}  // namespace unisono::strategies
