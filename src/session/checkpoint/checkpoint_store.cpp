#include "checkpoint/checkpoint_store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "checkpoint/shared_file.hpp"
#include "unisono/base/raw_file.hpp"

namespace unisono::session {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kAside = ".tmp";

std::string name_of_step(std::int64_t step) { return fmt::format("step-{:09}.h5", step); }

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw OutputError(
        fmt::format("{}: cannot be created: {}; choose another folder with --output", folder, error.message()));
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    if (entry.path().string().ends_with(kAside)) fs::remove(entry.path(), ignored);
  }
}

}  // namespace

CheckpointStore::CheckpointStore(comm::Communicator& group, std::string folder,
                                 const settings::CheckpointSettings& settings)
    : group_(group), folder_(std::move(folder)), settings_(settings) {
  if (group_.is_root()) make_folder(folder_);
}

void CheckpointStore::write(const CheckpointHeader& header, const StoredVectors& state, bool best) {
  finish();
  const std::string path = (fs::path(folder_) / name_of_step(header.step)).string();
  writing_.emplace(group_, path, header, state, snapshot_,
                   [this, path, best](const std::string& aside) { publish(aside, path, best); });
}

void CheckpointStore::advance() {
  if (writing_ && writing_->advance()) writing_.reset();
}

void CheckpointStore::finish() {
  while (writing_) {
    writing_->wait_a_little();
    advance();
  }
}

void CheckpointStore::publish(const std::string& aside, const std::string& path, bool best) const {
  sync_and_rename(aside, path);
  if (best) link_file(path, this->best());
  remove_old(path);
}

/// Checkpoints of later steps than the one just written are damaged ones, from which the run was not resumed: they are
/// removed, too.
void CheckpointStore::remove_old(const std::string& written) const {
  auto paths = checkpoints_in(folder_);
  std::erase_if(paths, [](const std::string& path) { return path.ends_with("best.h5"); });
  const auto last = std::find(paths.begin(), paths.end(), written);
  for (auto path = paths.begin(); path != paths.end(); ++path) {
    if (path >= last && path - last < settings_.keep) continue;
    std::error_code ignored;  // a checkpoint that cannot be removed does no harm
    fs::remove(*path, ignored);
  }
}

std::string CheckpointStore::best() const { return (fs::path(folder_) / "best.h5").string(); }

void CheckpointStore::go_back_to_best(std::int64_t step) {
  finish();
  if (group_.is_root()) {
    const std::string path = (fs::path(folder_) / name_of_step(step)).string();
    std::error_code ignored;
    if (!fs::exists(path, ignored)) link_file(best(), path);
    remove_old(path);
  }
  group_.barrier();
}

std::optional<StoredCheckpoint> CheckpointStore::newest(Log& log) const {
  std::vector<std::string> damaged;
  auto found = newest_whole(group_, folder_, log, damaged);
  if (found || damaged.empty()) return found;
  throw CheckpointError(fmt::format(
      "{}: all {} checkpoints are damaged ({}); start over with --overwrite, or restore a checkpoint from a backup",
      folder_, damaged.size(), fmt::join(damaged, "; ")));
}

namespace {

/// The hashes of this rank's segments; none if the file cannot be read, so that the seal does not match.
std::vector<std::uint64_t> hash_what_can_be_read(const std::string& path, int reader, int readers) {
  try {
    if (reader < readers) return hash_segments(path, reader, readers);
  } catch (const DataError&) {
  }
  return {};
}

}  // namespace

bool all_see(comm::Communicator& group, const std::string& path) {
  const std::string mine = seal_fingerprint(path), roots = group.broadcast_text(mine);
  return group.max(static_cast<std::int64_t>(mine.empty() || mine != roots)) == 0;
}

std::vector<std::uint64_t> gather_hashes(comm::Communicator& group, const std::vector<std::uint64_t>& own,
                                         int readers) {
  const auto parts = group.all_gather_vectors(own);
  std::size_t count = 0;
  for (const auto& part : parts) count += part.size();
  std::vector<std::uint64_t> hashes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& part = parts[i % static_cast<std::size_t>(readers)];
    const std::size_t at = i / static_cast<std::size_t>(readers);
    if (at < part.size()) hashes[i] = part[at];
  }
  return hashes;
}

std::string broken_seal(comm::Communicator& group, const std::string& path, int readers) {
  std::string missing = group.broadcast_text(group.is_root() ? missing_seal(path) : "");
  if (!missing.empty()) return missing;
  const auto hashes = gather_hashes(group, hash_what_can_be_read(path, group.rank(), readers), readers);
  const bool fits = !group.is_root() || fits_seal(path, hashes);
  return group.max(static_cast<std::int64_t>(!fits)) == 0
             ? ""
             : path + " is damaged: its checksum does not match its contents";
}

}  // namespace unisono::session
