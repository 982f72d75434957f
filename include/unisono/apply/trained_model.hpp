#pragma once

#include <memory>
#include <string>

#include "unisono/apply/evaluate.hpp"
#include "unisono/apply/raw_set.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::apply {

/// A trained model and, if wanted, the set to which it is applied, on every rank. Its construction is collective.
struct TrainedModel {
  enum class With { set, nothing };
  TrainedModel(comm::Communicator& world, const ApplyOptions& options, Log& log, With with = With::set);

  session::StoredCheckpoint checkpoint;
  settings::Config config;
  std::unique_ptr<session::ModelParts> parts;
  std::unique_ptr<RawSet> raw;                   ///< null: the set is an HDF5 file
  std::unique_ptr<session::SharedDataset> data;  ///< null if no set is wanted
  data::Split split = data::Split::test;
  std::string source;  ///< the file to which it is applied, as the user named it

  bool reads_raw_file() const;    ///< whether the file was converted into a temporary set
  std::string data_text() const;  ///< "test of a.h5", or "new.csv"

 private:
  void open_set(comm::Communicator& world, const ApplyOptions& options, Log& log);
};

}  // namespace unisono::apply
