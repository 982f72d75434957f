#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_writing.hpp"
#include "unisono/base/log.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// The checkpoints of one run: step-000001234.h5 for the last `keep`, and best.h5. All ranks write them together, in
/// the background, one at a time, from a snapshot in memory; training waits only for the snapshot, and for the previous
/// checkpoint. All functions are collective, and all ranks throw the same errors.
class CheckpointStore {
 public:
  /// \param folder is created if it is missing; incomplete files of an interrupted write are removed. \throws
  /// OutputError
  CheckpointStore(comm::Communicator& group, std::string folder, const settings::CheckpointSettings& settings);
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Waits for the previous checkpoint, copies what this rank writes, and starts writing it. \param best whether to
  /// keep it also as best.h5 \throws OutputError of either checkpoint
  void write(const CheckpointHeader& header, const StoredVectors& state, bool best);
  bool is_writing() const { return writing_.has_value(); }
  /// Continues a write in progress; must be called from time to time. \throws OutputError of that write
  void advance();
  /// Waits for the write in progress. \throws OutputError of that write
  void finish();

  /// Makes the best checkpoint, which is of this step, the newest: removes those of later steps.
  void go_back_to_best(std::int64_t step);
  std::string best() const;  ///< path of best.h5

  /// The newest undamaged checkpoint; best.h5 is tried last. Damaged ones are skipped with a warning. Nothing if there
  /// are none at all. \throws CheckpointError if all are damaged
  std::optional<StoredCheckpoint> newest(Log& log) const;

 private:
  void publish(const std::string& aside, const std::string& path, bool best) const;
  void remove_old(const std::string& written) const;

  comm::Communicator& group_;
  std::string folder_;
  settings::CheckpointSettings settings_;
  Buffer snapshot_;  ///< of the last checkpoint; its memory is reused
  std::optional<CheckpointWriting> writing_;
};

}  // namespace unisono::session
