#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Makers of sets in the layout of docs/data-format.md. Each writes beside its output and renames at the end: what
// stands at `output` is never half a set. All throw DataError for input that is not as it should be, naming the file,
// the line or byte and the reason, and OutputError where the output cannot be written or exists and may not be
// overwritten.

namespace unisono {

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
  std::int64_t classes = 0;                          ///< 0: targets
  std::vector<std::string> feature_names;            ///< of a table, in the order of the features
};

/// The four files of MNIST, Fashion-MNIST and their like, gzipped or not: train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (or with a dot before "idx"). The t10k pair
/// may be missing.
ImportSummary import_idx(const std::string& folder, const ImportOutput& output);

/// CIFAR-10's binary version: data_batch_1.bin … data_batch_5.bin, test_batch.bin, batches.meta.txt (may be missing).
ImportSummary import_cifar10(const std::string& folder, const ImportOutput& output);

struct CsvOptions {
  std::string label;                 ///< name or number (from 1; −1: the last) of the column of classes
  std::string target;                ///< the same for a number that is to be predicted, in place of classes
  std::string delimiter = "auto";    ///< auto, or one character
  std::string header = "auto";       ///< auto, yes, no
  std::vector<std::string> exclude;  ///< columns that are no features, by name or number
  bool standardize = false;          ///< numeric features minus the training rows' mean, over their deviation
  double validation_fraction = 0, test_fraction = 0;  ///< of the rows, chosen at random
  std::uint64_t seed = 1;                             ///< of that choice
};

/// A table of comma-, semicolon-, tab- or space-separated columns, gzipped or not. Columns of numbers become a feature
/// each; columns of words become one feature for each word (1 where it stands, 0 elsewhere), in alphabetical order.
/// Missing values are refused. \param test a second file with the test rows, or empty
ImportSummary import_csv(const std::string& file, const std::string& test, const CsvOptions& options,
                         const ImportOutput& output);

}  // namespace unisono
