#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/session/checkpoint.hpp"
#include "unisono/tensor/holding.hpp"

namespace unisono::session {

/// Whose values a vector of a checkpoint has: where the values of replicas differ, each replica has a vector of its
/// own.
enum class ValuesOf { all_replicas, this_replica, another_replica };

/// A vector of a checkpoint, and this rank's part of it.
struct StoredVector {
  std::string group;                       ///< the vector's group in checkpoints: "parameters", "optimizer/1/velocity"
  std::shared_ptr<const Holding> holding;  ///< what this rank holds of the vector
  MutableView values;                      ///< [holding->size()]
  Allocator* memory = &plain_allocator();  ///< memory of the values
  ValuesOf of = ValuesOf::all_replicas;    ///< another_replica: this rank writes nothing of the vector

  const ParameterLayout& layout() const { return holding->layout(); }
  /// Whether ranks hold different parts of the vector.
  bool is_divided() const { return of != ValuesOf::all_replicas || !holding->held_by_all(); }
};
using StoredVectors = std::vector<StoredVector>;

inline StoredVector stored_vector(std::string group, std::shared_ptr<const Holding> holding, Buffer& values) {
  return {std::move(group), std::move(holding), values.view(), &values.allocator()};
}

/// The parts of a vector that one of several writers writes: its share of each block of a vector that all ranks hold;
/// else all its shards that are first copies.
std::vector<Shard> shards_to_write(const StoredVector& vector, int writer, int writers);

/// A checkpoint file whose hash was verified: each rank hashed its share of the file's segments if all ranks see the
/// file; otherwise rank 0 hashed all of them.
struct StoredCheckpoint {
  std::string path;
  bool seen_by_all = false;
  CheckpointHeader header;
  int optimizer_states = 0;  ///< what the function optimizer_states says of the file
};

/// Verifies a checkpoint and reads its header. Collective; all ranks return or throw the same. \throws
/// DamagedCheckpoint, or CheckpointError for another version of the format
StoredCheckpoint open_checkpoint(comm::Communicator& group, const std::string& path);

/// The newest undamaged checkpoint of a folder; best.h5 is tried last. Damaged checkpoints are skipped with a warning.
/// Collective. \param damaged on return, what is wrong with the damaged checkpoints
std::optional<StoredCheckpoint> newest_whole(comm::Communicator& group, const std::string& folder, Log& log,
                                             std::vector<std::string>& damaged);

/// Checks that a path exists and, if it is a folder, that this is a run's and has a checkpoint; does not read the file.
/// \throws CheckpointError if not
void require_checkpoint(const std::string& path);

/// The checkpoint that a user names by its path, or by its run's folder (the newest undamaged one). Collective.
/// \throws CheckpointError
StoredCheckpoint find_checkpoint(comm::Communicator& group, const std::string& path, Log& log);

/// A file, and whether all ranks see it.
struct StoredFile {
  std::string path;
  bool seen_by_all = false;
};
/// Lets each rank read its part of a vector from a file; if not all ranks see the file, rank 0 reads and broadcasts.
/// Collective. \param read reads into the vector's values, which lie in plain memory \throws OutputError if the vector
/// is divided and not all ranks see the file
void read_by_ranks(comm::Communicator& ranks, const StoredFile& file, const StoredVector& vector,
                   const std::function<void(const StoredVector& vector)>& read);

/// Sets this rank's part of a vector to the values of a group, or to the mean of several groups. Each rank reads for
/// itself; if not all ranks see the file, rank 0 reads and broadcasts. Collective. \throws OutputError if the vector is
/// divided and not all ranks see the file
/// \param blocks whether to read each of the layout's blocks; empty: all
void read_vector(comm::Communicator& ranks, const StoredCheckpoint& stored, const std::vector<std::string>& groups,
                 const StoredVector& vector, const std::vector<bool>& blocks = {});

/// The paths of a folder's checkpoints, newest first, best.h5 last.
std::vector<std::string> checkpoints_in(const std::string& folder);

// Reading and writing a checkpoint's HDF5 file (see checkpoint.hpp) by one rank; nothing here is collective.

/// Creates a file with the header, room for the values of a whole state, and a trailer that is not yet sealed. \param
/// number a random number that distinguishes the file from others \return where each block's values begin: bytes from
/// the file's start, vector by vector
/// \throws OutputError
std::vector<std::int64_t> create_checkpoint(const std::string& path, std::uint64_t number,
                                            const CheckpointHeader& header, const StoredVectors& state);

/// Writes bytes from a place in a file on.
using WriteBytes = std::function<void(std::uint64_t at, std::span<const std::byte> bytes)>;
/// Writes the canonical values of a part of a block, in contiguous pieces. \param begin the block's first byte in the
/// file
void write_box(const Block& block, const Box& box, std::int64_t begin, View canonical, const WriteBytes& write);

// The following functions read a file whose seal was verified. All throw DamagedCheckpoint if HDF5 nevertheless cannot
// read the file.

/// Reads a checkpoint's header, with the config's text. \throws CheckpointError for another format or version
CheckpointHeader read_header(const std::string& path);

/// Checks that a checkpoint has exactly the blocks of two layouts. \throws CheckpointError naming the block that
/// differs
void require_same_model(const std::string& path, const ParameterLayout& parameters, const ParameterLayout& statistics);
/// Checks that a checkpoint's group "optimizer" has exactly the vectors of these names, each with its layout. \throws
/// CheckpointError
void require_same_optimizer(const std::string& path, const std::map<std::string, const ParameterLayout*>& vectors);

/// The shapes of a group's blocks, by name.
std::map<std::string, std::vector<Index>> shapes_in(const std::string& path, const std::string& group);

/// How many optimizer states a checkpoint holds: one for each rank, or one for all; 0 if the optimizer has no vectors.
int optimizer_states(const std::string& path);
/// The group of an optimizer's vector in a checkpoint: "optimizer/1/velocity".
std::string optimizer_group(int state, const std::string& vector);

/// Reads parts of a vector's blocks, some MiB at a time, and calls see(a part of a shard, its canonical values). With
/// several groups the values are the mean over the groups.
void visit_shards(const std::string& path, const std::vector<std::string>& groups, const ParameterLayout& layout,
                  const std::vector<Shard>& shards, const std::function<void(const Shard& shard, View canonical)>& see);
/// Reads what this rank holds of a vector into the vector. \param blocks whether to read each of the layout's blocks;
/// empty: all
void read_vector(const std::string& path, const std::vector<std::string>& groups, const StoredVector& vector,
                 const std::vector<bool>& blocks = {});

}  // namespace unisono::session
