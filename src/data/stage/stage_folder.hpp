#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stage/page_file.hpp"

namespace unisono::data {

/// What is staged.
struct StagedSource {
  std::string path;            ///< absolute, or an absolute pattern of several files
  std::uint64_t bytes = 0;     ///< of the files
  std::uint64_t identity = 0;  ///< of this version of the files
  std::uint64_t expected = 0;  ///< bytes of it that this node will keep
};

/// A set's copy in the folder of this user on a local disk, `<stage>/unisono-<uid>/<identity>`. All jobs of the user
/// share it. It is not removed as long as one of them uses it.
struct StagedCopy {
  std::unique_ptr<PageFile> pages;
  std::uint64_t most_bytes = 0;  ///< that the copy may take on the disk
  std::string evicted;           ///< names of the sets that were removed for it; empty: none
  OpenFile used;                 ///< holds the lock that says that the copy is in use
};

/// Opens a set's copy, or makes an empty one. Copies of older versions of the file are removed; and where the user's
/// copies would take more than `most_bytes`, those that were used least recently, but none that is in use.
/// \param stage data.stage \param most_bytes data.stage_bytes; 0: no limit
/// \throws ConfigError where the folder cannot be used
StagedCopy open_staged_copy(const std::string& stage, const StagedSource& source, std::uint64_t most_bytes);

}  // namespace unisono::data
