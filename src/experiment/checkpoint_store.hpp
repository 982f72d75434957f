#pragma once

#include <future>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/experiment/checkpoint.hpp"
#include "unisono/experiment/config.hpp"

namespace unisono {

/// The checkpoints of one run, for rank 0: step-000001234.h5 for the last `keep`, and best.h5. They are written in the
/// background, one at a time, from a copy; a step waits only for the copy, and for the checkpoint before.
class CheckpointStore {
 public:
  /// \param folder is made where it is missing; what an interrupted writing left there is removed. \throws OutputError
  CheckpointStore(std::string folder, const CheckpointSettings& settings, CheckpointLayout layout);
  ~CheckpointStore();
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// What the next `write` writes, to be filled; its memory is that of the checkpoint before, for which this waits.
  /// \throws OutputError that the writing before met
  Checkpoint& next();
  /// Starts writing it. \param best whether it is to be kept as the best, too
  void write(bool best);
  /// Waits. \throws OutputError that the writing met
  void finish();

  /// The newest that is whole, the best one last of all; damaged ones are named in a warning and passed over. Nothing
  /// where there are none at all. \throws CheckpointError where all are damaged, or hold another model
  std::optional<Checkpoint> newest(Log& log) const;

  /// Where the last finished one is; empty: there is none.
  const std::string& last() const { return last_; }

 private:
  void write_now(bool best);
  void remove_old() const;

  std::string folder_;
  CheckpointSettings settings_;
  CheckpointLayout layout_;
  Checkpoint next_;
  std::future<void> writing_;
  std::string last_;
};

/// The paths of a folder's checkpoints, newest first, the best one at the end.
std::vector<std::string> checkpoints_in(const std::string& folder);

}  // namespace unisono
