#pragma once

#include <memory>
#include <string>

#include "apply/raw_set.hpp"
#include "checkpoint/stored_checkpoint.hpp"
#include "machine/parts.hpp"
#include "unisono/experiment/evaluate.hpp"

namespace unisono::experiment {

/// A trained model and, if wanted, the set to which it is applied, on every rank. Its construction is collective.
struct TrainedModel {
  enum class With { set, nothing };
  TrainedModel(comm::Communicator& world, const ApplyOptions& options, Log& log, With with = With::set);

  StoredCheckpoint checkpoint;
  Config config;
  std::unique_ptr<ModelParts> parts;
  std::unique_ptr<RawSet> raw;          ///< null: the set is an HDF5 file
  std::unique_ptr<SharedDataset> data;  ///< null if no set is wanted
  data::Split split = data::Split::test;
  std::string source;  ///< the file to which it is applied, as the user named it

  bool reads_raw_file() const;    ///< whether the file was converted into a temporary set
  std::string data_text() const;  ///< "test of a.h5", or "new.csv"

 private:
  void open_set(comm::Communicator& world, const ApplyOptions& options, Log& log);
};

}  // namespace unisono::experiment
