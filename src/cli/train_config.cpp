#include "train_config.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "unisono/records/folder_owner.hpp"

namespace unisono::cli {
namespace {

namespace fs = std::filesystem;

/// "runs/lenet/" → "runs/lenet"
std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

void require_resume(const std::string& folder, bool holds_run, bool resume) {
  if (!holds_run) {
    throw ConfigError(
        fmt::format("{}: is a folder that holds no run; give a config file, or a run folder with --resume", folder));
  }
  if (resume) return;
  throw ConfigError(
      fmt::format("{}: is a run folder: add --resume to continue that run, or give a config file for a new one; "
                  "{}/config.toml with --output DIR repeats it",
                  folder, folder));
}

}  // namespace

settings::Config read_train_config(const ConfigArguments& arguments, const std::string& output, bool resume,
                                   const models::ModelKinds& models) {
  std::error_code ignored;
  const bool is_folder = fs::is_directory(arguments.path, ignored);
  const std::string folder = without_slash(arguments.path);
  const std::string path = is_folder ? folder + "/config.toml" : arguments.path;
  const bool holds_run = records::holds_run(folder) && fs::exists(records::checkpoints_of(folder), ignored);
  if (is_folder) require_resume(folder, holds_run, resume);
  if (is_folder && !output.empty() && without_slash(output) != folder) {
    throw ConfigError(
        fmt::format("--output {}: the run in {} continues in its own folder; leave --output out", output, folder));
  }
  ConfigArguments read = arguments;
  read.path = path;
  settings::Config config = read.read(models);
  if (is_folder) {
    config.output = folder;
  } else if (!output.empty()) {
    config.output = output;
  }
  return config;
}

}  // namespace unisono::cli
