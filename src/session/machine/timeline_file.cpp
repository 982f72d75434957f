#include "unisono/session/pipeline_figures.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::session {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBeginning = "<svg";

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw ConfigError(fmt::format("--timeline {}: {}", path, reason));
}

bool holds_drawing(const std::string& path) {
  std::string found(kBeginning.size(), '\0');
  std::ifstream(path, std::ios::binary).read(found.data(), static_cast<std::streamsize>(found.size()));
  return found == kBeginning;
}

void require_writable_folder(const std::string& path) {
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    refuse(path, fmt::format("there is no folder {}; make it, or choose another file", folder.string()));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    refuse(path, fmt::format("the folder {} cannot be written: {}; choose another file", folder.string(),
                             std::strerror(errno)));
  }
}

}  // namespace

void TimelineFile::require_writable() const {
  if (path.empty()) throw ConfigError("--timeline: the name of the file is empty");
  require_writable_folder(path);
  std::error_code error;
  const fs::file_type kind = fs::symlink_status(path, error).type();
  if (kind == fs::file_type::not_found && fs::path(path).has_filename()) return;
  if (kind != fs::file_type::regular) {
    refuse(path, "this is not a regular file, so it is not replaced; choose another file");
  }
  if (!overwrite) refuse(path, "already exists; choose another file, or add --overwrite");
  if (!holds_drawing(path)) {
    refuse(path, "exists and is not a drawing (SVG) of this program, so it is not replaced; choose another file");
  }
}

void TimelineFile::write(const std::string& svg) const {
  const std::string reason = records::try_to_write_text_file(path, svg);
  if (reason.empty()) return;
  throw OutputError(fmt::format("--timeline {}: cannot be written: {}; choose another file", path, reason));
}

}  // namespace unisono::session
