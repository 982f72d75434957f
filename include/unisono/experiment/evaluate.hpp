#pragma once

#include <cstdint>
#include <string>
#include <vector>

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

struct WordTestOptions {
  ApplyOptions model;                   ///< without its data
  std::vector<std::string> analogies;   ///< files like word2vec's questions-words.txt
  std::vector<std::string> similarity;  ///< files of lines "word word score"
  std::int64_t words = 30000;           ///< analogies: the most frequent words, which questions and answers are among
};

/// Prints how a model of words answers analogies (by 3CosAdd), and how its cosines agree with people's scores
/// (Spearman's ρ). Collective: questions are shared out, and the figures do not depend on the number of ranks.
/// 	hrows CheckpointError, ConfigError for a model without words, DataError naming file and line
void evaluate_words(Communicator& world, const WordTestOptions& options, bool json, Log& log);

/// Writes the model's outputs for a split, in the set's order, to FILE.h5 (dataset "predictions" [n, K], and "classes"
/// [n] of classifiers) or FILE.csv (a line an example). Collective; every example is written exactly once. \throws
/// CheckpointError, DataError, OutputError
void predict(Communicator& world, const ApplyOptions& options, const std::string& output, Log& log);

}  // namespace unisono
