#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "unisono/base/raw_file.hpp"
#include "unisono/session/checkpoint.hpp"
#include "unisono/session/stored_checkpoint.hpp"

// Reading and writing a checkpoint's HDF5 file (see checkpoint.hpp) by one rank; nothing here is collective.

namespace unisono::session {

/// Creates a file with the header, room for the values of a whole state, and a trailer that is not yet sealed. \param
/// number a random number that distinguishes it from other files \return where each block's values begin: bytes from
/// the file's start, vector by vector
/// \throws OutputError
std::vector<std::int64_t> create_checkpoint(const std::string& path, std::uint64_t number,
                                            const CheckpointHeader& header, const StoredVectors& state);

/// Writes the canonical values of a part of a block. \param begin the block's first byte in the file \throws as RawFile
void write_box(RawFile& file, const Block& block, const Box& box, std::int64_t begin, View canonical);

// The following functions read a file whose seal was verified. All throw DamagedCheckpoint if HDF5 cannot read it
// nevertheless.

/// The header, with the config's text. \throws CheckpointError for another format or version
CheckpointHeader read_header(const std::string& path);

/// Checks that the file has exactly these blocks. \throws CheckpointError naming the block that differs
void require_same_model(const std::string& path, const ParameterLayout& parameters, const ParameterLayout& statistics);
/// Checks that the file's group "optimizer" has exactly the vectors of these names, each with its layout. \throws
/// CheckpointError
void require_same_optimizer(const std::string& path, const std::map<std::string, const ParameterLayout*>& vectors);

/// The shapes of a group's blocks, by name.
std::map<std::string, std::vector<Index>> shapes_in(const std::string& path, const std::string& group);

/// How many optimizer states the file holds: one for each rank, or one for all; 0 if the optimizer has no vectors.
int optimizer_states(const std::string& path);
/// The group of an optimizer's vector: "optimizer/1/velocity"
std::string optimizer_group(int state, const std::string& vector);

/// Reads parts of a vector's blocks, some MiB at a time, and calls see(a part of a shard, its canonical values). With
/// several groups the values are the mean over them.
void visit_shards(const std::string& path, const std::vector<std::string>& groups, const ParameterLayout& layout,
                  const std::vector<Shard>& shards, const std::function<void(const Shard& shard, View canonical)>& see);
/// Reads what this rank holds of a vector into it. \param blocks whether to read each of the layout's blocks; empty:
/// all
void read_vector(const std::string& path, const std::vector<std::string>& groups, const StoredVector& vector,
                 const std::vector<bool>& blocks = {});

}  // namespace unisono::session
