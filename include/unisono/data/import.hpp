#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/data/preprocessing.hpp"

// Makers of sets in the layout of docs/data-format.md. Each writes beside its output and renames at the end: what
// stands at `output` is never half a set. All throw DataError for input that is not as it should be, naming the file,
// the line or byte and the reason, and OutputError where the output cannot be written or exists and may not be
// overwritten.
namespace unisono::data {

struct ImportOutput {
  std::string path;        ///< of the HDF5 file to be made
  bool overwrite = false;  ///< replace a file that is there
  int compression = 0;     ///< gzip level, 0 (none) to 9
};

/// What was made: for a line of log.
struct ImportSummary {
  std::string path;
  std::int64_t train = 0, validation = 0, test = 0;  ///< examples
  std::vector<std::int64_t> shape;                   ///< of an example's features
  std::int64_t classes = 0;                          ///< 0: no labels
  bool targets = false;                              ///< numbers to predict
  std::vector<std::string> feature_names;            ///< of a table, in the order of the features
};

/// The four files of MNIST, Fashion-MNIST and their like, gzipped or not: train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (or with a dot before "idx"). The t10k pair
/// may be missing.
ImportSummary import_idx(const std::string& folder, const ImportOutput& output);

/// CIFAR-10's binary version: data_batch_1.bin … data_batch_5.bin, test_batch.bin, batches.meta.txt (may be missing).
ImportSummary import_cifar10(const std::string& folder, const ImportOutput& output);

/// Whether a file's first line holds the names of the columns.
enum class Header { automatic, yes, no };

inline constexpr Named<Header> kHeaders[] = {{Header::automatic, "auto", "what the first lines look like"},
                                             {Header::yes, "yes", "it does"},
                                             {Header::no, "no", "it holds values"}};

struct CsvOptions {
  // A column is named by its name in the header, or by its number: 1 is the first, −1 the last.
  std::string label = {};                     ///< the column of classes
  std::string target = {};                    ///< the column of numbers to be predicted, in place of classes
  std::vector<std::string> exclude = {};      ///< columns that are no features
  std::vector<std::string> categorical = {};  ///< columns whose numbers are names: one feature for each
  std::string delimiter = "auto";             ///< auto, tab, or one character
  Header header = Header::automatic;
  // The recipe: how a run turns the columns into features, with what it finds in its own training rows.
  Scaling scale = Scaling::none;  ///< of columns of numbers
  Missing missing = Missing::error;
  Unknown unknown = Unknown::error;
  std::int64_t minimum_frequency = 1;  ///< training rows that a level must have
  // Columns that say something about the rows, and are no features; or empty.
  std::string group = {};   ///< rows of one group belong together: /train/groups
  std::string time = {};    ///< numbers, or dates (2024-02-29, 2024-02-29T18:30:00): /train/times
  std::string weight = {};  ///< how much a row counts in training, at least 0: /train/weights
  double validation_fraction = 0, test_fraction = 0;  ///< of the rows, chosen at random
  std::uint64_t seed = 1;                             ///< of the random choice of rows
  std::string test_file = {};                         ///< a second table, whose rows are the test group; or empty
};

/// A table with columns separated by comma, semicolon, tab, bar or blanks, gzipped or not. The set holds raw values,
/// numbers and the numbers of levels, and a recipe (see preprocessing.hpp). Classes are numbered in the order of their
/// numbers, or of the alphabet. Without label and target the set has features alone. \throws ConfigError for options
/// that contradict each other or name a column that is not there
ImportSummary import_csv(const std::string& path, const CsvOptions& options, const ImportOutput& output);

/// The form of the data that a model was trained on, into which files in other formats than HDF5 are brought.
struct RawForm {
  SetKind kind = SetKind::table;
  FeatureShape features;  ///< sparse rows: one channel for each column
  const Preprocessing& preprocessing;
};

/// Converts a file to which a trained model is to be applied into a set whose only group is `test`. Formats: CSV for
/// models of tables with named columns; LIBSVM for models of sparse rows; for models of stored features IDX images, a
/// NumPy array (.npy) with an example in each row, or a folder of .npy files with one example each (in the order of
/// their names). Labels and targets are kept if the model knows all of them.
/// \return why the file's labels or targets were left out; empty if they were not, or if there are none
/// \throws DataError for a file that cannot be brought into the form that the model was trained on
std::string import_raw(const std::string& input, const RawForm& form, const ImportOutput& output);

/// A path in this folder for such a set, unique to this process. Making a set there also removes those that killed
/// processes have left in the folder.
std::string temporary_set(const std::string& folder);

/// Replaces such a path, of any process, in a message by `name`, the file from which the set was made.
std::string name_temporary_set(std::string message, const std::string& folder, const std::string& name);

}  // namespace unisono::data
