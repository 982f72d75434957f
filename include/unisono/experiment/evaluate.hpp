#pragma once

#include <cstdint>
#include <string>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/factory.hpp"

namespace unisono {

/// A trained model, and what it is applied to.
struct ApplyOptions {
  std::string model;         ///< a run folder (its newest checkpoint), or a checkpoint
  std::string data;          ///< an HDF5 set; empty: the one it was trained on
  std::string split;         ///< train, validation or test; empty: test, or what there is of the three
  std::int64_t threads = 0;  ///< per rank; 0: the fair share
  ModelKinds models = {};    ///< of one's own
};

/// Prints the model's figures on a split. Collective; every example counts exactly once.
/// \param json print them as one JSON object
/// \throws CheckpointError, DataError
void evaluate(Communicator& world, const ApplyOptions& options, bool json, Log& log);

/// Writes the model's outputs for a split, in the set's order, to FILE.h5 (dataset "predictions" [n, K], and "classes"
/// [n] of classifiers) or FILE.csv (a line an example). Collective; every example is written exactly once. \throws
/// CheckpointError, DataError, OutputError
void predict(Communicator& world, const ApplyOptions& options, const std::string& output, Log& log);

}  // namespace unisono
