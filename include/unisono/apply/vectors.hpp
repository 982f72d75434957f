#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/apply/evaluate.hpp"
#include "unisono/base/log.hpp"

// Exports and searches the vectors of a trained model: of words, or of users and items. One process does it, without
// the data set: the names of words, users and items are in the run's folder (RUN/dictionary.h5).

namespace unisono::apply {

/// The arguments of `unisono export`.
struct ExportOptions {
  ApplyOptions model;
  std::string table;  ///< words, users, items, …; empty: the model's only table
  std::string output;
  /// For a table: word2vec-text, word2vec-binary, npy, csv; for all parameters: hdf5, npz, safetensors; for the whole
  /// model: onnx; empty: safetensors, npz or onnx, if the output is called so.
  std::string format;
  std::string names;  ///< of tensors in safetensors: transformers, pytorch or unisono; empty: those that the model has
  bool without_preprocessing = false;  ///< onnx: whether the graph begins with what the model gets
  bool overwrite = false;
};

/// Writes a table of vectors with their names; or all parameters with the names of their layers, or with those that
/// transformers or PyTorch have for them; or the model as an ONNX graph. With npy the names go to a second file,
/// OUTPUT.names.txt, one per line; with PyTorch's names OUTPUT.py builds the network there. \throws CheckpointError,
/// ConfigError for a model without such vectors, DataError, OutputError
void export_vectors(const ExportOptions& options, Log& log);

/// The arguments of `unisono neighbors`.
struct NeighborOptions {
  ApplyOptions model;
  std::string table;  ///< words, users, items, …; empty: the model's only table
  std::vector<std::string> names;
  std::int64_t top = 10;
  bool json = false;
};

/// Prints for each name the `top` names whose vectors have the largest cosines with its vector.
/// \throws CheckpointError, ConfigError for a model without such vectors, DataError (for an unknown name, with the most
/// similar one)
void neighbors(const NeighborOptions& options, Log& log);

}  // namespace unisono::apply
