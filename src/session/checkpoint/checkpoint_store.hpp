#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// One checkpoint while it is written:
///   1. every rank writes its own shards into one temporary file (path + ".tmp") and syncs them to disk,
///   2. every rank reads back some of the file's segments and hashes them,
///   3. rank 0 seals the file and renames it.
/// Each stage is done by a thread of the rank that makes no MPI calls; the ranks start the next stage when they find in
/// `advance` that all have finished. If not all ranks see the file, rank 0 does everything in one go.
class CheckpointWriting {
 public:
  /// Creates the file, copies this rank's shards and starts writing. Collective.
  /// \param snapshot memory for the copy; must outlive this object
  /// \param publish called at the end by a thread of rank 0: renames the temporary file `aside`
  /// \throws OutputError, on all ranks, as does `advance`; the incomplete file is then removed
  CheckpointWriting(comm::Communicator& group, std::string path, const CheckpointHeader& header,
                    const StoredVectors& state, Buffer& snapshot,
                    std::function<void(const std::string& aside)> publish);
  /// Waits for the thread. An unfinished checkpoint is removed.
  ~CheckpointWriting();
  CheckpointWriting(const CheckpointWriting&) = delete;
  CheckpointWriting& operator=(const CheckpointWriting&) = delete;

  /// Starts the next stage if all ranks have finished the present one. Collective; usually one message of 8 bytes.
  /// \return whether the checkpoint is finished
  bool advance();
  /// Waits until this rank has finished its part of the present stage, or a short time has passed.
  void wait_a_little() const;

 private:
  enum class Stage { writing, hashing, sealing, finished };
  /// A part of a block that this rank writes.
  struct WrittenShard {
    const Block& block;
    Shard shard;
    std::int64_t begin;       ///< of the block: bytes from the file's start
    std::size_t copy, count;  ///< floats in the snapshot: first, number
  };

  std::vector<std::int64_t> create(const CheckpointHeader& header, const StoredVectors& state);
  void copy_shards(const StoredVectors& state, const std::vector<std::int64_t>& begins);
  void copy_parts(const StoredVector& vector, std::span<const WrittenShard> parts);
  MutableView copy_of(const WrittenShard& part) { return snapshot_.view().subspan(part.copy, part.count); }
  void write_shards();
  void hash();
  void seal();
  void start(Stage stage, const std::function<void()>& work);
  void start_writing();
  void start_next();
  void give_up();
  void require_none(const std::vector<std::string>& errors);

  comm::Communicator& group_;
  std::string path_, aside_;
  Buffer& snapshot_;
  std::function<void(const std::string& aside)> publish_;
  int writers_ = 1;
  std::vector<WrittenShard> parts_;
  std::vector<std::uint64_t> hashes_;  ///< this rank's, later all ranks'
  Stage stage_ = Stage::writing;
  std::future<std::string> work_;  ///< of the present stage; its result is an error message, or empty
  Threads thread_{"writing a checkpoint"};
};

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

// Checks of a file by all ranks together. All are collective, with the same result on every rank.

inline constexpr std::string_view kMustBeShared =
    "each rank holds a part of the state, but not all ranks can see this folder; choose one on a file system that all "
    "nodes share (--output)";

/// Whether all ranks see the same file under this path, judged by its size and its last bytes.
bool all_see(comm::Communicator& group, const std::string& path);

/// Gathers the hashes of all segments. Rank r < readers contributes those of segments r, r + readers, … (see
/// hash_segments).
std::vector<std::uint64_t> gather_hashes(comm::Communicator& group, const std::vector<std::uint64_t>& own, int readers);

/// Verifies a file's seal; ranks [0, readers) read the file. \return what is wrong, for a message; empty if nothing is
std::string broken_seal(comm::Communicator& group, const std::string& path, int readers);

}  // namespace unisono::session
