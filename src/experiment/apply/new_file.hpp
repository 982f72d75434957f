#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace unisono::experiment {

/// A file that appears under its name when all of it is written.
class NewFile {
 public:
  /// \throws OutputError where there is one already that may not be replaced, or none can be made
  NewFile(std::string path, bool overwrite);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  const std::string& path() const { return path_; }
  /// \throws OutputError
  void write(std::string_view bytes);
  /// \throws OutputError
  void finish();

 private:
  std::string aside() const { return path_ + ".tmp"; }
  [[noreturn]] void fail() const;

  std::string path_;
  std::ofstream file_;
};

}  // namespace unisono::experiment
