#pragma once

#include <functional>
#include <future>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint_file.hpp"
#include "unisono/base/threads.hpp"

namespace unisono::experiment {

/// One checkpoint on its way to the disk:
///   1. every rank writes its own shards into one file aside (path + ".tmp"), and these through to the disk,
///   2. every rank reads some of the file's segments again and hashes them,
///   3. rank 0 seals the file and gives it its name.
/// Each is done by a thread of the rank that calls no MPI; the ranks go on to the next one when they find in `advance`
/// that all are through. Where not all ranks see the file, rank 0 does everything, which it does in one go.
class CheckpointWriting {
 public:
  /// Makes the file, and copies this rank's shards. Collective.
  /// \param snapshot memory for the copy, which must outlive this
  /// \param publish by a thread of rank 0, at the end: renames the file aside
  /// \throws OutputError on all ranks, as all that follow; then nothing remains of the checkpoint
  CheckpointWriting(comm::Communicator& world, std::string path, const CheckpointHeader& header, const HeldState& state,
                    Buffer& snapshot, std::function<void(const std::string& aside)> publish);
  /// Waits for the thread. What is not finished is given up.
  ~CheckpointWriting();
  CheckpointWriting(const CheckpointWriting&) = delete;
  CheckpointWriting& operator=(const CheckpointWriting&) = delete;

  /// Whether it is finished. Goes on with what can be done without waiting. Collective; one message of 8 bytes, mostly.
  bool advance();
  /// Waits until this rank has done its part of the present stage, some time at most.
  void wait_a_little() const;

 private:
  enum class Stage { writing, hashing, sealing, finished };
  /// What this rank writes of a block.
  struct WrittenShard {
    const Block& block;
    HeldShard shard;
    std::int64_t begin;       ///< of the block: bytes from the file's start
    std::size_t copy, count;  ///< floats in the snapshot: the first, how many
  };

  std::vector<std::int64_t> create(const CheckpointHeader& header, const HeldState& state);
  void copy_shards(const HeldState& state, const std::vector<std::int64_t>& begins);
  void copy_parts(const HeldVector& vector, std::span<const WrittenShard> parts);
  MutableView copy_of(const WrittenShard& part) { return snapshot_.view().subspan(part.copy, part.count); }
  void write_shards();
  void hash();
  void seal();
  void start(Stage stage, const std::function<void()>& work);
  void start_writing();
  void start_next();
  void give_up();
  void require_none(const std::vector<std::string>& errors);

  comm::Communicator& world_;
  std::string path_, aside_;
  Buffer& snapshot_;
  std::function<void(const std::string& aside)> publish_;
  int writers_ = 1;
  std::vector<WrittenShard> parts_;
  std::vector<std::uint64_t> hashes_;  ///< this rank's, then all
  Stage stage_ = Stage::writing;
  std::future<std::string> work_;  ///< of the present stage; gives what went wrong
  Threads thread_{"writing a checkpoint"};
};

}  // namespace unisono::experiment
