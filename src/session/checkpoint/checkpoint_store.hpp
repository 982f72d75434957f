#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_drain.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/checkpoint_writing.hpp"
#include "checkpoint/local_checkpoints.hpp"
#include "checkpoint/memory_copies.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/base/log.hpp"
#include "unisono/base/open_file.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// What became of checkpoints that were written to a local disk first.
struct LocalCheckpointCounts {
  std::int64_t copied = 0;    ///< to the run's folder
  std::int64_t given_up = 0;  ///< newer ones took their place before they were copied
  std::int64_t direct = 0;    ///< written to the run's folder at once, because the local disk failed
  void describe(CounterVisitor& visitor);
  std::string text(const CounterTerms& terms) const;
};

/// The checkpoints of one run: step-000001234.h5 for the last `keep`, and best.h5. All ranks write them together, in
/// the background, one at a time, from a snapshot in memory; training waits only for the snapshot, and for the previous
/// checkpoint. With checkpoint.local they are written to a disk of rank 0's node, and are copied to the run's folder in
/// the background: training never waits for that folder. All functions are collective, and all ranks throw the same
/// errors.
class CheckpointStore {
 public:
  /// \param folder is created if it is missing; incomplete files of an interrupted write are removed
  /// \param log for warnings; null: there are none \throws OutputError
  CheckpointStore(comm::Communicator& group, const std::string& folder, const settings::CheckpointSettings& settings,
                  Log* log = nullptr);
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Copies into the folder what a killed run has left on a node's local disk or in the nodes' memory alone, whatever
  /// the config says now. Call before `newest`. \throws OutputError
  void recover(Log& log);

  /// Waits for the previous checkpoint, copies what this rank writes, and starts writing it. \param best whether to
  /// keep it also as best.h5 \throws OutputError of either checkpoint
  void write(const CheckpointHeader& header, const StoredVectors& state, bool best);
  /// With checkpoint.memory_every_steps: begins to copy the state to the nodes' memory. Where that fails, there is a
  /// warning, and no copies are made from then on.
  void copy_to_memory(const CheckpointHeader& header, const StoredVectors& state);
  /// \throws ConfigError where a node has no room for the copies in its memory
  void require_room(const StoredVectors& state) const;
  bool is_writing() const { return writing_.has_value() || (copies_ && copies_->is_writing()); }
  /// Continues a write in progress; must be called from time to time. \throws OutputError of that write
  void advance();
  /// Waits until all checkpoints are in the folder, and removes copies that are not newer. \throws OutputError
  void finish();
  /// Of checkpoints and copies since the store was made; nothing where none go elsewhere than to the folder.
  void count(CounterSet& counters) const;

  /// Makes the best checkpoint, which is of this step, the newest: removes those of later steps.
  void go_back_to_best(std::int64_t step);
  std::string best() const { return folder_.best(); }
  /// Makes best.h5 the checkpoint from which the run is resumed, if it is the best one: a kill may have come in
  /// between.
  void relink_best(const StoredCheckpoint& resumed);

  /// The newest undamaged checkpoint; best.h5 is tried last. Damaged ones are skipped with a warning. Nothing if there
  /// are none at all. \throws CheckpointError if all are damaged
  std::optional<StoredCheckpoint> newest(Log& log) const;

 private:
  /// Newer checkpoints that a killed run has left on this rank's node, and their folder's lock.
  struct LeftOnDisk {
    OpenFile lock = {};
    std::vector<LocalCheckpoint> checkpoints = {};
  };
  void warn(const std::string& text) const;
  CheckpointTarget local_target();
  CheckpointTarget shared_target() const;
  void begin_local_folder();
  void leave_local_disk(const FailedWriting& error);
  void finish_writing();
  void finish_copying();
  void wait_for(const CheckpointDrain* drain);
  void require_copied(const std::string& problem);
  void recover_from_disk(Log& log);
  void recover_from_disk_of(int owner, const LocalNote& note, LeftOnDisk left, Log& log);
  void recover_from_memory(Log& log);
  void warn_of_copies();

  comm::Communicator& group_;
  CheckpointFolder folder_;
  settings::CheckpointSettings settings_;
  Log* log_;
  std::unique_ptr<comm::Communicator> messages_;  ///< from ranks of other nodes than rank 0's; null: not needed
  std::string local_folder_;                      ///< of rank 0, while there is one
  OpenFile local_lock_;                           ///< of that folder
  std::unique_ptr<CheckpointDrain> drain_;        ///< of rank 0, where checkpoint.local is set
  bool begun_ = false, warned_of_disk_ = false;
  std::int64_t locals_ = 0, direct_ = 0;  ///< how many checkpoints were begun there, and written past it
  std::int64_t step_ = 0;                 ///< of the checkpoint that is written
  bool best_ = false;                     ///< whether it is the best one
  Buffer snapshot_;                       ///< of the last checkpoint; its memory is reused
  std::optional<CheckpointWriting> writing_;
  std::int64_t written_ = -1;             ///< the step of the last checkpoint that was written; −1: none
  std::unique_ptr<MemoryCopies> copies_;  ///< null: none are made
};

}  // namespace unisono::session
