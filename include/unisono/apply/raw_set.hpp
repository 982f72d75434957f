#pragma once

#include <string>

#include "unisono/apply/evaluate.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/import.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::apply {

/// The set to which a trained model is applied. A file in another format is converted by rank 0 into a temporary set,
/// in a folder that all ranks see; it is removed with this object. An HDF5 file is used as it is. Its construction is
/// collective.
class RawSet {
 public:
  /// \throws DataError for a file that cannot be brought into the form that the model was trained on, OutputError
  RawSet(comm::Communicator& world, const std::string& input, const session::StoredCheckpoint& checkpoint,
         const std::string& folder, Log& log);
  ~RawSet();
  RawSet(const RawSet&) = delete;
  RawSet& operator=(const RawSet&) = delete;

  const std::string& path() const { return path_; }

 private:
  void make(const std::string& input, const session::StoredCheckpoint& checkpoint, const std::string& folder, Log& log);

  std::string path_;
  bool owned_ = false;  ///< whether this rank made it
};

/// Calls `apply`, which reads such a set. In error messages it replaces the temporary set's path by the file that the
/// user gave.
template <typename Do>
void naming_input(const ApplyOptions& options, const Do& apply) {
  try {
    apply();
  } catch (const DataError& error) {
    if (options.input.empty()) throw;
    throw DataError(data::name_temporary_set(error.what(), options.scratch, options.input));
  }
}

}  // namespace unisono::apply
