#include "trials/states.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::jobs {
namespace {

namespace fs = std::filesystem;

/// States are states/<epochs>/<checkpoint>.
std::string states_of(const std::string& run_folder) { return run_folder + "/states"; }

void link_or_copy(const fs::path& from, const fs::path& to, std::error_code& error) {
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
}

/// A trial's last state of fewer epochs than these; nothing where it has none.
std::optional<fs::path> newest_state_before(const std::string& run_folder, std::int64_t epochs) {
  std::error_code ignored;
  std::int64_t newest = 0;
  for (const auto& entry : fs::directory_iterator(states_of(run_folder), ignored)) {
    const std::int64_t made = std::strtoll(entry.path().filename().c_str(), nullptr, 10);
    if (made < epochs) newest = std::max(newest, made);
  }
  for (const auto& entry : fs::directory_iterator(states_of(run_folder) + "/" + std::to_string(newest), ignored)) {
    return entry.path();
  }
  return std::nullopt;
}

}  // namespace

bool has_checkpoint(const std::string& run_folder) {
  std::error_code ignored;
  const fs::path checkpoints = records::checkpoints_of(run_folder);
  return fs::is_directory(checkpoints, ignored) && !fs::is_empty(checkpoints, ignored);
}

void remove_checkpoints(const std::string& run_folder) {
  std::error_code ignored;
  fs::remove_all(records::checkpoints_of(run_folder), ignored);
}

void keep_state(const std::string& run_folder, std::int64_t epochs) {
  std::error_code ignored;
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(records::checkpoints_of(run_folder), ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step-") && name.ends_with(".h5") && name > newest.filename()) newest = entry.path();
  }
  const fs::path folder = fs::path(states_of(run_folder)) / std::to_string(epochs);
  fs::create_directories(folder, ignored);
  if (!newest.empty()) link_or_copy(newest, folder / newest.filename(), ignored);
}

void remove_states(const std::string& run_folder) {
  std::error_code ignored;
  fs::remove_all(states_of(run_folder), ignored);
}

void take_over(const std::string& other_folder, std::int64_t epochs, const std::string& run_folder) {
  const auto state = newest_state_before(other_folder, epochs);
  const fs::path checkpoints = records::checkpoints_of(run_folder);
  std::error_code error;
  fs::remove_all(checkpoints, error);
  if (!error) fs::create_directories(checkpoints, error);
  if (!error && state) link_or_copy(*state, checkpoints / state->filename(), error);
  if (!error && state) return;
  throw CheckpointError(fmt::format("{}: cannot take over the state of {}: {}", run_folder, other_folder,
                                    error ? error.message() : "it has none"));
}

}  // namespace unisono::jobs
