#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/records/model_examples.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::apply {

/// A trained model, and what it is applied to.
struct ApplyOptions {
  std::string model;          ///< a run folder (its newest checkpoint), or a checkpoint
  std::string data;           ///< an HDF5 set; empty: the one that the model was trained on
  std::string input;          ///< a file in another format, in place of `data`: see import_raw
  std::string scratch = ".";  ///< a folder that all ranks see, for the temporary set made from `input`
  std::string split;          ///< train, validation or test; empty: test, or what there is of the three
  std::int64_t threads = 0;   ///< threads per rank; 0: the fair share
  std::int64_t stride = 0;    ///< language models: data::DataSettings::stride
  settings::DeviceChoice device = settings::DeviceChoice::cpu;
  models::ModelKinds models = {};  ///< added kinds of models (docs/own-model.md)
  /// The second of two classes is predicted where its output is at least this; nothing: the model's own threshold.
  std::optional<double> threshold = {};
};

/// How `evaluate` judges a model, and how it prints the figures.
struct EvaluateOptions {
  bool json = false;     ///< print one JSON object
  std::int64_t at = 10;  ///< ratings: length of the lists of best items that are judged; 0: none are judged
  /// Ratings: the least that makes an item relevant; default: the mean of the training ratings.
  std::optional<double> relevant;
};

/// Prints the model's figures on a split: its loss and the figures of its training; of classifiers also the confusion
/// matrix, precision, recall, F1, ROC-AUC, average precision and calibration; of ratings precision, recall and NDCG of
/// the best items (docs/evaluation.md). Collective; every example counts exactly once. \throws CheckpointError,
/// DataError
void evaluate(comm::Communicator& world, const ApplyOptions& options, const EvaluateOptions& how, Log& log);

/// What `evaluate_words` tests.
struct WordTestOptions {
  ApplyOptions model;                   ///< the model; its `data` is not used
  std::vector<std::string> analogies;   ///< files like word2vec's questions-words.txt
  std::vector<std::string> similarity;  ///< files of lines "word word score"
  std::int64_t words = 30000;           ///< analogies: questions and answers are among so many most frequent words
};

/// Prints how a model of words answers analogies (by 3CosAdd), and how its cosines agree with people's scores
/// (Spearman's ρ). Collective: questions are shared out, and the figures do not depend on the number of ranks.
/// \throws CheckpointError, ConfigError for a model without words, DataError naming file and line
void evaluate_words(comm::Communicator& world, const WordTestOptions& options, bool json, Log& log);

/// Which outputs `predict` writes, and where.
struct PredictOptions {
  std::string output;  ///< FILE.csv or FILE.h5
  bool overwrite = false;
  std::string layer;            ///< the layer whose outputs are written; empty: the model's outputs
  std::int64_t batch_size = 0;  ///< examples that a rank predicts at once; 0: train.evaluation_batch_size
  /// Run folders or checkpoints of other models of the same outputs: the mean over all is written.
  std::vector<std::string> ensemble = {};
  std::vector<std::string> keep = {};  ///< columns of a CSV file as input that are copied to FILE.csv
};

/// Writes the model's outputs for a split, in the set's order, to FILE.h5 (dataset "predictions" [n, K], and "classes"
/// [n] of classifiers) or FILE.csv (a line an example; of ratings with the names of user and item), with labels or
/// targets where the set has them, and with the classes' names. Collective; every example is written exactly once.
/// \throws ConfigError for a layer that the model does not have, CheckpointError, DataError, OutputError
void predict(comm::Communicator& world, const ApplyOptions& options, const PredictOptions& how, Log& log);

/// With what `predict_stream` predicts.
struct StreamOptions {
  ApplyOptions model;           ///< `data`, `input` and `split` are not used
  std::string layer;            ///< the layer whose outputs are printed; empty: the model's outputs
  std::int64_t batch_size = 0;  ///< lines that are predicted at once, at most; 0: train.evaluation_batch_size
};

/// Predicts the lines of standard input as they come, and prints a line of CSV for each, as `predict` writes them,
/// below a line of names. Lines that are there already are predicted together. A line is a row of a table (the first
/// one holds the names of the columns where the training table had some), a row of LIBSVM, the path of a picture, or an
/// example's stored values. By one process. Ends where the input ends. \throws LaunchError for several ranks,
/// ConfigError for models of anything else, CheckpointError, DataError naming the first line that is wrong, after the
/// predictions of those before it
void predict_stream(comm::Communicator& world, const StreamOptions& options, Log& log);

/// What `predict_top` recommends to whom, and where it writes this.
struct TopOptions {
  ApplyOptions model;
  std::int64_t top = 10;
  std::string output;              ///< FILE.csv (user,rank,item,score) or FILE.h5 (users, items, scores)
  std::vector<std::string> users;  ///< names of users to recommend for; none here and no `users_file`: all users
  std::string users_file;          ///< a text file of further names, one per line; empty: none
  bool overwrite = false;
};

/// Writes for each user the items that the model thinks best of, without those that the user rated in the set's
/// training group. Collective: users are shared out. \throws ConfigError for a model of anything but ratings,
/// CheckpointError, DataError, OutputError
void predict_top(comm::Communicator& world, const TopOptions& options, Log& log);

/// Applies a trained model to a split, by one process on its own: the confusion matrix, the examples that the model is
/// most wrong about, neighbours of its vectors, and metrics of examples that it was not trained on.
/// \param most how many examples `worst` has at most \throws CheckpointError, DataError
records::ModelExamples examples_of_model(const ApplyOptions& options, std::size_t most, Log& log);

}  // namespace unisono::apply
