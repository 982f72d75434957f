#include "checkpoint/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::session {

namespace fs = std::filesystem;

std::string CheckpointFolder::of_step(std::int64_t step) const {
  return (fs::path(path_) / fmt::format("step-{:09}.h5", step)).string();
}

std::string CheckpointFolder::best() const { return (fs::path(path_) / "best.h5").string(); }

std::int64_t CheckpointFolder::newest_step() const {
  const auto paths = checkpoints_in(path_);
  if (paths.empty() || paths.front() == best()) return -1;
  const std::string name = fs::path(paths.front()).filename();
  return std::strtoll(name.c_str() + name.find('-') + 1, nullptr, 10);
}

void CheckpointFolder::make() const {
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) {
    throw OutputError(
        fmt::format("{}: cannot be created: {}; choose another folder with --output", path_, error.message()));
  }
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    std::error_code ignored;
    if (entry.path().string().ends_with(kUnfinished)) fs::remove(entry.path(), ignored);
  }
}

void CheckpointFolder::publish(const std::string& aside, std::int64_t step, bool best) const {
  const std::string path = of_step(step);
  sync_and_rename(aside, path);
  if (best) link_file(path, this->best());
  remove_old(path);
}

/// Checkpoints of later steps than the one just written are damaged ones, from which the run was not resumed: they are
/// removed, too.
void CheckpointFolder::remove_old(const std::string& written) const {
  auto paths = checkpoints_in(path_);
  std::erase_if(paths, [](const std::string& path) { return path.ends_with("best.h5"); });
  const auto last = std::find(paths.begin(), paths.end(), written);
  for (auto path = paths.begin(); path != paths.end(); ++path) {
    if (path >= last && path - last < keep_) continue;
    std::error_code ignored;  // a checkpoint that cannot be removed does no harm
    fs::remove(*path, ignored);
  }
}

void CheckpointFolder::go_back_to_best(std::int64_t step) const {
  const std::string path = of_step(step);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) link_file(best(), path);
  remove_old(path);
}

}  // namespace unisono::session
