#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/experiment/evaluate.hpp"

// What is done with the vectors of a trained model: those of words, or of users and items. By one process, without the
// set: the run has their names (RUN/dictionary.h5).

namespace unisono::experiment {

struct ExportOptions {
  ApplyOptions model;
  std::string table;  ///< words, users, items, …; empty: the only one
  std::string output;
  std::string format;  ///< of a table: word2vec-text, word2vec-binary, npy, csv; of all parameters: hdf5, npz
  bool overwrite = false;
};

/// Writes a table of vectors, each with its name, or all parameters by the names of their layers. Of npy the names go
/// to a second file, OUTPUT.names.txt, a line each. \throws CheckpointError, ConfigError for a model without such
/// vectors, DataError, OutputError
void export_vectors(const ExportOptions& options, Log& log);

struct NeighborOptions {
  ApplyOptions model;
  std::string table;  ///< as above
  std::vector<std::string> names;
  std::int64_t top = 10;
  bool json = false;
};

/// Prints for each name those whose vectors have the largest cosines with its own.
/// \throws as above; DataError for a name that there is not, with the nearest one
void neighbors(const NeighborOptions& options, Log& log);

}  // namespace unisono::experiment
