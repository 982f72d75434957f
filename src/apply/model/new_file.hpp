#pragma once

#include <fstream>
#include <string>
#include <string_view>

namespace unisono::apply {

/// What a new file may replace.
enum class Replace {
  nothing,
  exports,  ///< what `unisono export` has written
  anything  ///< any regular file: the caller has looked at it
};

/// How ONNX files begin that `unisono export` has written, and how the first line of its Python files ends.
inline constexpr std::string_view kOnnxBeginning = "\x08\x08\x12\x07unisono",
                                  kTorchModuleMark = ", written by unisono.";

/// A file that is written aside and gets its name in `finish`, so that an incomplete one never has it.
class NewFile {
 public:
  /// \throws OutputError if it exists and must not be replaced, or cannot be created
  NewFile(std::string path, Replace replace);
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

}  // namespace unisono::apply
