#pragma once

#include <string>

namespace unisono::session {

/// The file of `info --timeline`: an SVG drawing.
struct TimelineFile {
  std::string path;
  bool overwrite = false;  ///< an earlier drawing may be replaced, and nothing else

  /// \throws ConfigError if the drawing must not or cannot be written there
  void require_writable() const;
  /// \throws OutputError
  void write(const std::string& svg) const;
};

}  // namespace unisono::session
