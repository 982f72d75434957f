#pragma once

#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <span>
#include <string>

namespace unisono::test {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// A folder for the files of one test, removed at its end.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "unisono-data-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp " + name);
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// The message of the Thrown that `action` throws; "" where it throws nothing, and what else it throws passes.
template <typename Thrown, typename Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "";
}

}  // namespace unisono::test
