#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace unisono::apply {

/// Lines of a pipe, terminal or file, as they come.
class LineStream {
 public:
  /// \param descriptor an open file, which stays open \param name for messages
  LineStream(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

  /// Waits for a line, and takes what other whole lines are there already. Without line breaks.
  /// \return at most so many; none at the end \throws DataError where it cannot be read, or a line is too long
  std::vector<std::string> next(std::size_t most);

 private:
  bool read_more();
  bool has_line() const { return text_.find('\n', searched_) != std::string::npos; }
  bool is_readable() const;

  int descriptor_;
  std::string name_;
  std::string text_;          ///< read, and not yet taken
  std::size_t searched_ = 0;  ///< of it, without a line break
  std::int64_t taken_ = 0;    ///< lines
  bool at_end_ = false;
};

}  // namespace unisono::apply
