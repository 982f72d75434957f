#include "unisono/base/file_pattern.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>

namespace unisono {

bool is_file_pattern(const std::string& path) {
  std::error_code ignored;
  return path.find_first_of("*?[") != std::string::npos && !std::filesystem::exists(path, ignored);
}

std::vector<std::string> files_of(const std::string& path) {
  if (!is_file_pattern(path)) return {path};
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(path.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  std::ranges::sort(files);  // glob's own order depends on the locale
  return files;
}

bool has_files(const std::string& path) {
  std::error_code ignored;
  return is_file_pattern(path) ? !files_of(path).empty() : std::filesystem::exists(path, ignored);
}

}  // namespace unisono
