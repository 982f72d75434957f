#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace unisono::session {

/// What the names of unfinished files end in.
inline constexpr std::string_view kUnfinished = ".tmp";

/// The folder of a run's checkpoints: step-000001234.h5 for the last `keep`, and best.h5. One process at a time may
/// change it. All functions throw OutputError.
class CheckpointFolder {
 public:
  CheckpointFolder(std::string path, std::int64_t keep) : path_(std::move(path)), keep_(keep) {}

  const std::string& path() const { return path_; }
  std::string of_step(std::int64_t step) const;
  std::string best() const;
  std::int64_t keep() const { return keep_; }
  /// The latest step that a file is named after, whole or not; -1: there is none.
  std::int64_t newest_step() const;

  /// Creates the folder where it is missing, and removes unfinished files.
  void make() const;
  /// Gives a finished file its name, makes it best.h5 as well if it is the best one, and removes what is not kept.
  /// \param aside the file's temporary name, in this folder
  void publish(const std::string& aside, std::int64_t step, bool best) const;
  /// Makes the best checkpoint, which is of this step, the newest: removes those of later steps.
  void go_back_to_best(std::int64_t step) const;

 private:
  void remove_old(const std::string& written) const;

  std::string path_;
  std::int64_t keep_;
};

}  // namespace unisono::session
