#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_contents.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/comm/communicator.hpp"

// Copies of a run's state in the memory of its nodes (checkpoint.memory_every_steps), as files:
//   /dev/shm/unisono-<uid>/copies/<id>/<host>-rank-<holder>-part-<part>-<slot>
// They outlive the process. A copy is what a checkpoint's file would be, divided into parts. Where all ranks hold the
// same state, each node's ranks keep all of it, and no message is sent. Else each rank keeps its own part, and a rank
// of the next node keeps it, too, so that all parts are there when one node is lost. The id is a random one, of one
// start of the run. A note in the run's folder says it, and the step of the first copy that this start has completed,
// by which whoever starts it again sees that it got on: checkpoints/memory.txt.
namespace unisono::session {

struct PartHeader;

/// How many copies were made.
struct MemoryCopyCounts {
  std::int64_t made = 0;
  void describe(CounterVisitor& visitor);
  std::string text(const CounterTerms& terms) const;
};

/// Makes the copies. There are two, in turn, so that one is whole at any time. All functions are collective, but the
/// const ones.
class MemoryCopies {
 public:
  /// \param checkpoints the run's folder of checkpoints
  MemoryCopies(comm::Communicator& group, std::string checkpoints);
  MemoryCopies(const MemoryCopies&) = delete;
  MemoryCopies& operator=(const MemoryCopies&) = delete;

  /// \throws ConfigError where a node has no room for copies of this state
  void require_room(const StoredVectors& state) const;
  /// Waits for the previous copy, and begins one: what this rank keeps is copied; threads pass it on. After a failure
  /// (`take_failure`) nothing is copied any more.
  void write(const CheckpointHeader& header, const StoredVectors& state);
  bool is_writing() const { return contents_ != nullptr; }
  /// Must be called from time to time while a copy is made.
  void advance();
  void finish();
  /// The step of the newest copy that is whole; −1: there is none.
  std::int64_t newest_step() const { return newest_; }
  /// Why copies are no longer made; empty: they are, or it was said before. The same on all ranks.
  std::string take_failure() { return std::exchange(failure_, ""); }
  /// How many were made.
  std::int64_t made() const { return made_; }
  /// Removes all copies.
  void remove();

 private:
  std::string begin_folder();
  std::string path_of(int part) const;
  void start(std::function<std::string()> work);
  std::string keep_own(PartHeader header, const std::vector<std::byte>& frame) const;
  std::string keep_others() const;
  void give_up(const std::string& error);

  comm::Communicator& group_;
  std::string checkpoints_;
  std::unique_ptr<comm::Communicator> messages_;  ///< of the threads
  std::string id_, folder_;
  bool divided_ = false;   ///< of the copy that is made: whether ranks keep what only they have
  int keeper_ = -1;        ///< the rank of another node that keeps this rank's part, too; −1: none
  std::vector<int> kept_;  ///< the ranks whose parts this rank keeps, besides its own
  int slot_ = 0;
  std::int64_t step_ = 0, newest_ = -1, made_ = 0;
  bool given_up_ = false;
  std::string failure_;  ///< why; empty where it was said
  Buffer snapshot_;
  std::unique_ptr<StateContents> contents_;
  std::vector<std::future<std::string>> work_;  ///< of the threads; results are error messages, or empty
  std::vector<std::string> errors_;
  Threads threads_{"copying the state to the nodes' memory", 2};
};

/// What a killed run has left in its nodes' memory.
struct FoundCopy {
  std::string id = {};                                     ///< empty: the run has left no note
  std::int64_t step = -1;                                  ///< of the newest whole copy; −1: there is none
  std::unique_ptr<CheckpointContents> contents = nullptr;  ///< of that one; null: none
  std::int64_t newest_part = -1;                           ///< of a copy that may not be whole; −1: nothing is left
};

/// Looks for copies on the nodes of these ranks. Collective.
FoundCopy find_memory_copy(comm::Communicator& group, const std::string& checkpoints);

/// Removes the copies that the folder has a note of, on the nodes of these ranks, and the note. Collective.
void forget_memory_copies(comm::Communicator& group, const std::string& checkpoints);

}  // namespace unisono::session
