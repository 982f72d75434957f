#pragma once

#include <string>
#include <string_view>

#include "unisono/records/run_folder.hpp"

namespace unisono::records {

/// Who writes to a folder: one run, or one job of many trainings.
enum class FolderOwner {
  nobody,  ///< there is nothing, or files of the user's
  run,
  search,
  cross_validation,
  trials,  ///< a search or a cross-validation whose journal does not say which
  study
};

/// Whether it is a search or a cross-validation: these have journals of the same form.
inline bool makes_trials(FolderOwner owner) {
  return owner == FolderOwner::search || owner == FolderOwner::cross_validation || owner == FolderOwner::trials;
}

/// The owner of a folder, from the files that are there: a config.toml or a log.txt alone may be the user's.
FolderOwner owner_of(const std::string& folder);

/// Whether a folder is a run's, with files from which tables of runs and reports can be made.
bool holds_run(const std::string& folder);

/// Refuses a folder that is somebody else's, one with results that are neither resumed nor replaced, and one in which
/// there is nothing to resume. \param mine who wants to write there \param has_results whether it did already
/// \throws OutputError, CheckpointError, saying what to do
void require_owner(const std::string& folder, FolderOwner mine, Existing existing, bool has_results);

}  // namespace unisono::records
