#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/held_vector.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/experiment/checkpoint.hpp"

// One rank's dealings with the HDF5 file that a checkpoint is (see checkpoint.hpp).

namespace unisono::experiment {

/// Makes a file with room for all of a state, and with the header and an open trailer, but without any of the values.
/// \param number that tells it from other files \return where each block's values begin: bytes from the file's start,
/// vector by vector
/// \throws OutputError
std::vector<std::int64_t> create_checkpoint(const std::string& path, std::uint64_t number,
                                            const CheckpointHeader& header, const HeldState& state);

/// The canonical values of a part of a block that begins at byte `begin`. \throws as RawFile
void write_box(RawFile& file, const Block& block, const Box& box, std::int64_t begin, View canonical);

// Of a file whose seal holds. All throw DamagedCheckpoint where HDF5 cannot make sense of it nevertheless.

CheckpointHeader read_header(const std::string& path);

/// \throws CheckpointError naming the block that another model has
void require_same_model(const std::string& path, const ParameterLayout& parameters, const ParameterLayout& statistics);
/// \param names of the optimizer's vectors, each in the layout of the parameters \throws CheckpointError
void require_same_optimizer(const std::string& path, const ParameterLayout& parameters,
                            const std::vector<std::string>& names);

/// The shapes of a group's blocks, by name.
std::map<std::string, std::vector<Index>> shapes_in(const std::string& path, const std::string& group);

/// How many states the optimizer's vectors are kept of: those of each rank, or the one of all; 0: it has no vectors.
int optimizer_states(const std::string& path);
/// "optimizer/1/velocity"
std::string optimizer_group(int state, const std::string& vector);

/// Calls see(shard, its canonical values) for what this rank holds, some MiB at a time: the values of a group, or the
/// mean of several.
void visit_vector(const std::string& path, const std::vector<std::string>& groups, const HeldVector& vector,
                  const std::function<void(const HeldShard& shard, View canonical)>& see);
/// Sets what this rank holds to these.
void read_vector(const std::string& path, const std::vector<std::string>& groups, const HeldVector& vector);

}  // namespace unisono::experiment
