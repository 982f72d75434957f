#include "unisono/base/errors.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace unisono {

std::string advice_about(const std::string& path, const std::string& otherwise) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (folder.empty() || fs::exists(folder, error) || error) return otherwise;
  return fmt::format(
      "the folder {} is gone: it was removed or renamed while the program ran; restore it and continue with --resume, "
      "or start again",
      folder.string());
}

}  // namespace unisono
