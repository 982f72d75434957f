#pragma once

#include <memory>
#include <optional>
#include <string>

#include "unisono/apply/evaluate.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/import.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::apply {

/// The set to which a trained model is applied. A file in another format is converted by rank 0 into a temporary set,
/// in a folder that all ranks see; it is removed with this object. An HDF5 file is used as it is. Its construction is
/// collective.
class RawSet {
 public:
  /// \throws DataError for a file that cannot be brought into the form that the model was trained on, OutputError
  RawSet(comm::Communicator& world, const std::string& input, const session::StoredCheckpoint& checkpoint,
         const std::string& folder);
  ~RawSet();
  RawSet(const RawSet&) = delete;
  RawSet& operator=(const RawSet&) = delete;

  const std::string& path() const { return path_; }
  /// Why the file's labels or targets were left out; empty: they were not, or there are none.
  const std::string& left_out() const { return left_out_; }

 private:
  void make(const std::string& input, const session::StoredCheckpoint& checkpoint, const std::string& folder);

  std::string path_, left_out_;
  bool owned_ = false;  ///< whether this rank made the set
};

/// Calls `apply`, which reads a RawSet or an HDF5 set, and replaces the path of a temporary set in its error messages
/// by the file that the user gave.
template <typename Do>
void naming_input(const ApplyOptions& options, const Do& apply) {
  try {
    apply();
  } catch (const DataError& error) {
    if (options.input.empty()) throw;
    throw DataError(data::name_temporary_set(error.what(), options.scratch, options.input));
  }
}

/// A trained model and, if wanted, the set to which it is applied, on every rank. Its construction is collective.
struct TrainedModel {
  /// Whether the set to which the model is applied is opened.
  enum class With { set, nothing };
  TrainedModel(comm::Communicator& world, const ApplyOptions& options, Log& log, With with = With::set);

  session::StoredCheckpoint checkpoint;
  settings::Config config;
  std::unique_ptr<session::ModelParts> parts;
  std::unique_ptr<RawSet> raw;                   ///< null: the set is an HDF5 file
  std::unique_ptr<session::SharedDataset> data;  ///< null if no set is wanted
  data::Split split = data::Split::test;
  std::optional<double> threshold;  ///< the output from which on the second of two classes is predicted
  bool threshold_is_given = false;  ///< whether `threshold` is the user's; false: it was chosen in training
  std::string source;               ///< the file to which the model is applied, as the user named it

  bool reads_raw_file() const;  ///< whether the file was converted into a temporary set
  /// Warns that labels or targets of the file are not used, if they are not.
  void say_left_out(Log& log) const;
  std::string data_text() const;  ///< what the model is applied to, for messages: "test of a.h5", or "new.csv"

  /// Opens the set or file of the options, in place of an earlier one. Collective.
  void open_set(comm::Communicator& world, const ApplyOptions& options, Log& log);
  void close_set();  ///< removes a temporary one
};

}  // namespace unisono::apply
