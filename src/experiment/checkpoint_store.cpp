#include "checkpoint_store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "seal.hpp"

namespace unisono {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kSuffix = ".h5", kAside = ".tmp";

std::string name_of_step(std::int64_t step) { return fmt::format("{}{:09}{}", kPrefix, step, kSuffix); }

bool is_checkpoint(const std::string& name) { return name.starts_with(kPrefix) && name.ends_with(kSuffix); }

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw OutputError(
        fmt::format("{}: cannot be made: {}; choose another folder with --output", folder, error.message()));
  }
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    if (entry.path().string().ends_with(kAside)) fs::remove(entry.path(), ignored);
  }
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

CheckpointStore::CheckpointStore(std::string folder, const CheckpointSettings& settings, CheckpointLayout layout)
    : folder_(std::move(folder)), settings_(settings), layout_(std::move(layout)) {
  make_folder(folder_);
}

CheckpointStore::~CheckpointStore() {
  if (writing_.valid()) writing_.wait();
}

Checkpoint& CheckpointStore::next() {
  finish();
  return next_;
}

void CheckpointStore::write(bool best) {
  finish();
  writing_ = std::async(std::launch::async, [this, best] { write_now(best); });
}

void CheckpointStore::finish() {
  if (writing_.valid()) writing_.get();
}

void CheckpointStore::write_now(bool best) {
  const std::string path = (fs::path(folder_) / name_of_step(next_.header.step)).string();
  write_checkpoint(path, next_, layout_);
  if (best) link_file(path, (fs::path(folder_) / "best.h5").string());
  last_ = path;
  remove_old();
}

/// Later steps than the one just written are those of damaged checkpoints that the run did not go on from.
void CheckpointStore::remove_old() const {
  auto paths = checkpoints_in(folder_);
  std::erase_if(paths, [](const std::string& path) { return path.ends_with("best.h5"); });
  const auto written = std::find(paths.begin(), paths.end(), last_);
  for (auto path = paths.begin(); path != paths.end(); ++path) {
    if (path >= written && path - written < settings_.keep) continue;
    std::error_code ignored;  // it is in nobody's way
    fs::remove(*path, ignored);
  }
}

std::optional<Checkpoint> CheckpointStore::newest(Log& log) const {
  std::vector<std::string> damaged;
  for (const std::string& path : checkpoints_in(folder_)) {
    try {
      return read_checkpoint(path, layout_);
    } catch (const DamagedCheckpoint& error) {
      damaged.emplace_back(error.what());
      log.warning(fmt::format("{}; the one before it is taken", error.what()));
    }
  }
  if (damaged.empty()) return std::nullopt;
  throw CheckpointError(
      fmt::format("{}: none of {} checkpoints is whole ({}); start anew with --overwrite, or restore "
                  "one from a backup",
                  folder_, damaged.size(), fmt::join(damaged, "; ")));
}

}  // namespace unisono
