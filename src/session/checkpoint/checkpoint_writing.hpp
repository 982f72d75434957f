#pragma once

#include <functional>
#include <future>
#include <span>
#include <string>
#include <vector>

#include "unisono/base/threads.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/session/checkpoint_file.hpp"

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

}  // namespace unisono::session
