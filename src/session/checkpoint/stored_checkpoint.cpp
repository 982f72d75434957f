#include "unisono/session/stored_checkpoint.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "checkpoint/checkpoint_header.hpp"
#include "checkpoint/shared_file.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/checkpoint_file.hpp"

namespace unisono::session {
namespace {

namespace fs = std::filesystem;

bool is_checkpoint(const std::string& name) { return name.starts_with("step-") && name.ends_with(".h5"); }

/// Rank 0 reads the header of a verified file for all ranks. \return what is wrong with it nevertheless; empty if
/// nothing is
std::string read_for_all(comm::Communicator& group, StoredCheckpoint& stored) {
  std::string damage;
  if (group.is_root()) {
    try {
      stored.header = read_header(stored.path);
      stored.optimizer_states = optimizer_states(stored.path);
    } catch (const DamagedCheckpoint& error) {
      damage = error.what();
    }
  }
  damage = group.broadcast_text(damage);
  if (!damage.empty()) return damage;
  const std::string config = group.broadcast_text(stored.header.config);
  stored.header = header_from_json(group.broadcast_text(to_json(stored.header)));
  stored.header.config = config;
  stored.optimizer_states = static_cast<int>(group.max(stored.optimizer_states));
  return "";
}

[[noreturn]] void fail_without_checkpoint(const std::string& run) {
  throw CheckpointError(fmt::format("{}: holds no complete checkpoint; train it first, or name another run", run));
}

}  // namespace

std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (is_checkpoint(entry.path().filename().string())) paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) > std::pair(b.size(), b);  // ten digits are more than nine
  });
  if (const std::string best = (fs::path(folder) / "best.h5").string(); fs::exists(best, error)) paths.push_back(best);
  return paths;
}

StoredCheckpoint open_checkpoint(comm::Communicator& group, const std::string& path) {
  StoredCheckpoint stored{.path = path, .seen_by_all = all_see(group, path), .header = {}};
  std::string damage = broken_seal(group, path, stored.seen_by_all ? group.size() : 1);
  if (damage.empty()) damage = read_for_all(group, stored);
  if (!damage.empty()) throw DamagedCheckpoint(damage);
  return stored;
}

std::optional<StoredCheckpoint> newest_whole(comm::Communicator& group, const std::string& folder, Log& log,
                                             std::vector<std::string>& damaged) {
  std::vector<std::string> paths;
  if (group.is_root()) paths = checkpoints_in(folder);
  const auto count = static_cast<std::size_t>(group.max(static_cast<std::int64_t>(paths.size())));
  paths.resize(count);
  for (const std::string& path : paths) {
    const std::string name = group.broadcast_text(fs::path(path).filename().string());
    try {
      return open_checkpoint(group, (fs::path(folder) / name).string());
    } catch (const DamagedCheckpoint& error) {
      damaged.emplace_back(error.what());
      if (group.is_root()) log.warning(fmt::format("{}; the previous checkpoint is used instead", error.what()));
    }
  }
  return std::nullopt;
}

void require_checkpoint(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    throw CheckpointError(
        fmt::format("{}: there is no such run or checkpoint; name a run folder, or one of its checkpoints/*.h5", path));
  }
  if (fs::is_directory(path, ignored) && checkpoints_in(records::checkpoints_of(path)).empty())
    fail_without_checkpoint(path);
}

StoredCheckpoint find_checkpoint(comm::Communicator& group, const std::string& path, Log& log) {
  if (group.is_root()) require_checkpoint(path);
  std::error_code ignored;
  if (group.max(group.is_root() && fs::is_directory(path, ignored) ? 1 : 0) == 0) {
    try {
      return open_checkpoint(group, path);
    } catch (const DamagedCheckpoint& error) {
      throw CheckpointError(fmt::format("{}; name another checkpoint of the run", error.what()));
    }
  }
  std::vector<std::string> damaged;
  if (auto found = newest_whole(group, records::checkpoints_of(path), log, damaged)) return *found;
  fail_without_checkpoint(path);
}

void read_vector(comm::Communicator& ranks, const StoredCheckpoint& stored, const std::vector<std::string>& groups,
                 const StoredVector& vector, const std::vector<bool>& blocks) {
  if (!vector.memory->is_plain()) {
    PlainValues values(*vector.memory, vector.values);
    StoredVector plain = vector;
    plain.values = values.view();
    plain.memory = &plain_allocator();
    read_vector(ranks, stored, groups, plain, blocks);
    return values.put_back();
  }
  if (stored.seen_by_all) return read_vector(stored.path, groups, vector, blocks);
  if (vector.is_divided()) {
    throw OutputError(
        fmt::format("{}: each rank must read its own part of it, but not all ranks can see it: put it on a file system "
                    "that all nodes share",
                    stored.path));
  }
  if (ranks.is_root()) read_vector(stored.path, groups, vector, blocks);
  ranks.broadcast(std::as_writable_bytes(vector.values), 0);
}

std::vector<Shard> shards_to_write(const StoredVector& vector, int writer, int writers) {
  if (vector.of == ValuesOf::another_replica) return {};
  std::vector<Shard> shards = vector.holding->shards();
  if (vector.of == ValuesOf::this_replica) return shards;
  if (!vector.holding->held_by_all()) {
    std::erase_if(shards, [](const Shard& shard) { return shard.copy != 0; });
    return shards;
  }
  if (writer >= writers) return {};
  for (Shard& shard : shards) {
    const comm::Slice own = comm::slice_of(shard.box.front().count, writer, writers);
    shard = rows_of(shard, own.first, own.last);
  }
  return shards;
}

}  // namespace unisono::session
