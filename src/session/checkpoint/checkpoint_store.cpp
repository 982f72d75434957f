#include "checkpoint/checkpoint_store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

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

}  // namespace unisono::session
