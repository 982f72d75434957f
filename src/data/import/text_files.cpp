#include "import/text_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_regular_file(error)) files.push_back(entry->path().string());
  }
  if (error) throw DataError(fmt::format("{}: cannot be listed: {}", folder, error.message()));
  if (files.empty()) throw DataError(folder + ": this folder has no files");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<std::string> list_files(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    const bool folder = std::filesystem::is_directory(path, error);
    const std::vector<std::string> found = folder ? files_below(path) : std::vector<std::string>{path};
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

}  // namespace unisono::data
