#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint_contents.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::session {

/// A checkpoint could not be written.
struct FailedWriting : OutputError {
  FailedWriting(const std::string& message, std::string why) : OutputError(message), reason(std::move(why)) {}
  std::string reason;  ///< what the system said
};

/// Where a checkpoint is written.
struct CheckpointTarget {
  std::string path;
  /// Called at the end by a thread of rank 0: gives the temporary file `aside` its name.
  std::function<void(const std::string& aside)> publish;
  /// By which ranks that do not see the file send their rows to rank 0, which writes them. Null: all ranks must see the
  /// file or, where each holds all, rank 0 writes alone.
  comm::Communicator* messages = nullptr;
  bool local = false;         ///< whether only ranks of rank 0's node may see it
  bool in_background = true;  ///< false: each stage is done when it begins, without a thread
};

/// One checkpoint while it is written:
///   1. every rank writes its own shards into one temporary file (path + ".tmp") and syncs them to disk,
///   2. every rank reads back some of the file's segments and hashes them,
///   3. rank 0 seals the file and renames it.
/// Each stage is done by a thread of the rank; the ranks start the next stage when they find in `advance` that all have
/// finished. The threads make no MPI calls, unless ranks that do not see the file send their shards.
class CheckpointWriting {
 public:
  /// Creates the file, copies this rank's shards and starts writing. Collective. \throws FailedWriting, on all ranks,
  /// as does `advance`; the incomplete file is then removed
  CheckpointWriting(comm::Communicator& group, CheckpointTarget target, std::unique_ptr<CheckpointContents> contents);
  /// Waits for the thread. An unfinished checkpoint is removed.
  ~CheckpointWriting();
  CheckpointWriting(const CheckpointWriting&) = delete;
  CheckpointWriting& operator=(const CheckpointWriting&) = delete;

  /// Starts the next stage if all ranks have finished the present one. Collective; usually one message of 8 bytes.
  /// \return whether the checkpoint is finished
  bool advance();
  /// Waits until this rank has finished its part of the present stage, or a short time has passed.
  void wait_a_little() const;
  /// After a failure: writes the same values elsewhere. Collective. \throws as the constructor
  void start_again(CheckpointTarget target);
  bool is_local() const { return target_.local; }

 private:
  enum class Stage { writing, hashing, sealing, finished };

  void create();
  void find_writers();
  bool is_writer() const { return writer_ < writers_; }
  void write_shards();
  void send_shards();
  void receive_shards();
  void hash();
  void seal();
  void start(Stage stage, const std::function<void()>& work);
  void start_writing();
  void start_next();
  void give_up();
  void require_none(const std::string& error);

  comm::Communicator& group_;
  CheckpointTarget target_;
  std::string aside_;
  std::unique_ptr<CheckpointContents> contents_;
  int writers_ = 1;                ///< how many ranks write to the file
  int writer_ = 0;                 ///< this rank's number among them; as many as there are: it is none of them
  std::vector<int> senders_ = {};  ///< the ranks that send the root what they have, because they do not see the file
  std::vector<std::uint64_t> hashes_;  ///< this rank's; later, on the root, all ranks'
  Stage stage_ = Stage::writing;
  std::future<std::string> work_;  ///< of the present stage; its result is an error message, or empty
  Threads thread_{"writing a checkpoint"};
};

// Checks of a file by all ranks together. All are collective, with the same result on every rank.

inline constexpr std::string_view kMustBeShared =
    "each rank holds a part of the state, but not all ranks can see this folder; choose one on a file system that all "
    "nodes share (--output)";

/// Whether all ranks see the same file under this path, judged by its size and its last bytes.
bool all_see(comm::Communicator& group, const std::string& path);

/// Gathers on the root the hashes of all segments of a file that `readers` ranks have read: the first of them segments
/// 0, readers, 2 · readers, …, the second one segments 1, 1 + readers, … (see hash_segments). The others have none.
std::vector<std::uint64_t> gather_hashes(comm::Communicator& group, const std::vector<std::uint64_t>& own, int readers);

/// Verifies a file's seal; ranks [0, readers) read the file. \return what is wrong, for a message; empty if nothing is
std::string broken_seal(comm::Communicator& group, const std::string& path, int readers);

}  // namespace unisono::session
