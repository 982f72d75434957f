#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_writing.hpp"
#include "checkpoint/stored_checkpoint.hpp"
#include "unisono/base/log.hpp"
#include "unisono/experiment/config.hpp"

namespace unisono::experiment {

/// The checkpoints of one run: step-000001234.h5 for the last `keep`, and best.h5. All ranks write them together, in
/// the background, one at a time, from a copy; a step waits only for the copy, and for the checkpoint before.
/// Everything is collective, and errors come on all ranks alike.
class CheckpointStore {
 public:
  /// \param folder is made where it is missing; what an interrupted writing left there is removed. \throws OutputError
  CheckpointStore(comm::Communicator& world, std::string folder, const CheckpointSettings& settings);
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;

  /// Waits for the one before, copies what this rank writes, and starts writing it.
  /// \param best whether it is to be kept as the best, too \throws OutputError that either writing met
  void write(const CheckpointHeader& header, const HeldState& state, bool best);
  bool is_writing() const { return writing_.has_value(); }
  /// To be called now and then while one is being written. \throws OutputError that the writing met
  void advance();
  /// Waits. \throws OutputError that the writing met
  void finish();

  /// Makes the best one, which was written after this step, the newest: those of later steps are removed. Collective.
  void go_back_to_best(std::int64_t step);
  std::string best() const;  ///< its path

  /// The newest that is whole, the best one last of all; damaged ones are named in a warning and passed over. Nothing
  /// where there are none at all. \throws CheckpointError where all are damaged
  std::optional<StoredCheckpoint> newest(Log& log) const;

 private:
  void publish(const std::string& aside, const std::string& path, bool best) const;
  void remove_old(const std::string& written) const;

  comm::Communicator& world_;
  std::string folder_;
  CheckpointSettings settings_;
  Buffer snapshot_;  ///< of the last one, whose memory the next one takes
  std::optional<CheckpointWriting> writing_;
};

}  // namespace unisono::experiment
