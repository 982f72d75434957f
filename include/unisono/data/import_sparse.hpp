#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/data/import.hpp"

// Makers of sparse sets: few values out of many columns, ratings, words, and how often words occur together. The
// layouts are in docs/data-format.md. Inputs may be gzipped. Each is read once, in pieces; what was found is set aside
// in a temporary file beside the output, and arranged from there. What they throw is said in import.hpp.

namespace unisono::data {

/// Which index the first column has.
enum class IndexBase { automatic, zero, one };

inline constexpr Named<IndexBase> kIndexBases[] = {
    {IndexBase::automatic, "auto", "0 if that index occurs, otherwise 1"},
    {IndexBase::zero, "0", "0"},
    {IndexBase::one, "1", "1"}};

/// What labels are.
enum class Task { automatic, classes, regression };

inline constexpr Named<Task> kTasks[] = {
    {Task::automatic, "auto", "classes if there are at most 1000 labels, all of them whole numbers"},
    {Task::classes, "classes", "classes"},
    {Task::regression, "regression", "numbers to predict"}};

struct LibsvmOptions {
  std::int64_t columns = 0;  ///< 0: as many as the largest index needs
  IndexBase base = IndexBase::automatic;
  Task task = Task::automatic;
  double validation_fraction = 0, test_fraction = 0;  ///< of the examples, chosen at random
  std::uint64_t seed = 1;                             ///< of the random choice
  std::string test_file = {};                         ///< whose examples are the test group; or empty
};

/// What was made, and what was found in the input.
struct SparseSummary {
  std::string path;
  std::int64_t train = 0, validation = 0, test = 0;  ///< examples
  std::int64_t columns = 0, nonzeros = 0;            ///< nonzeros of all examples
  std::int64_t base = 0;                             ///< the first column's index in the input
  bool all_ones = false;                             ///< no values are stored
  std::vector<std::string> classes = {};             ///< empty: numbers to predict
};

/// Text of LIBSVM and SVMlight: a line is `label index:value …`, with indices that ascend, and maybe `# a comment`.
/// Classes are numbered in the order of their labels. Memory: none that grows with the examples.
SparseSummary import_libsvm(const std::vector<std::string>& paths, const LibsvmOptions& options,
                            const ImportOutput& output);

/// Which ratings are for testing.
enum class RatingSplit { none, random, leave_one_out, time };

inline constexpr Named<RatingSplit> kRatingSplits[] = {
    {RatingSplit::none, "none", "none: all are for training"},
    {RatingSplit::random, "random", "a fraction of them, chosen at random"},
    {RatingSplit::leave_one_out, "leave_one_out", "each user's last rating (by time, or by line), if there is another"},
    {RatingSplit::time, "time", "the latest fraction"}};

struct RatingsOptions {
  std::string delimiter = "auto";     ///< auto, tab, ::, or one character; a blank stands for any number of them
  Header header = Header::automatic;  ///< of each file
  /// Validation takes its fraction of what the test leaves, with `time` the latest of it, else at random.
  RatingSplit split = RatingSplit::random;
  double validation_fraction = 0, test_fraction = 0;
  std::uint64_t seed = 1;      ///< of the random choice
  std::string test_file = {};  ///< whose ratings are the test group; or empty
};

struct RatingsSummary {
  std::string path;
  std::int64_t train = 0, validation = 0, test = 0;  ///< ratings
  std::int64_t users = 0, items = 0;
  bool times = false;
  std::string delimiter, header;  ///< of the first file, as they were found; header: empty where there is none
};

/// Lines of `user item rating` or `user item rating time`. Users and items are any words of UTF-8, numbered in the
/// order in which they come first, in the test file last. Memory: the words, and a byte a rating (9 for the split by
/// time).
RatingsSummary import_ratings(const std::vector<std::string>& paths, const RatingsOptions& options,
                              const ImportOutput& output);

struct TextOptions {
  std::int64_t minimum_count = 5;       ///< words that occur more seldom are left out
  std::int64_t maximum_words = 0;       ///< the most frequent ones alone; 0: all
  std::int64_t sentence_length = 1000;  ///< words; longer sentences are cut there
  bool lowercase = false;
  double test_fraction = 0;  ///< of the sentences, chosen at random
  std::uint64_t seed = 1;    ///< of the random choice
};

struct TextSummary {
  std::string path;
  std::int64_t train = 0, test = 0;                       ///< words
  std::int64_t train_sentences = 0, test_sentences = 0;   ///< not empty
  std::int64_t vocabulary = 0, distinct = 0, in_all = 0;  ///< words of the set; of the input; the input's length
};

/// Any UTF-8 text, from files, and from folders with all that is in them, in alphabetical order. A line is a sentence.
/// Words are what stands between blanks, numbered from the most frequent one on, those of the same frequency by their
/// bytes. Memory: the distinct words, and a sentence.
TextSummary import_text(const std::vector<std::string>& paths, const TextOptions& options, const ImportOutput& output);

struct CooccurrenceOptions {
  std::int64_t window = 15;                             ///< words on each side
  bool symmetric = true;                                ///< false: row is the left word, column the right one
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;  ///< for counting; what does not fit goes to the disk
  std::uint64_t seed = 1;                               ///< of the entries' order
};

struct CooccurrenceSummary {
  std::string path;
  std::int64_t entries = 0, vocabulary = 0;
  std::int64_t runs = 0;  ///< how often memory was full, and once for the rest
};

/// How often words occur near each other in the training sentences of a set of text: two words that are d ≤ window
/// places apart in a sentence add 1/d. The entries come in a random order, as training wants them.
///   Pennington, Socher & Manning, "GloVe: global vectors for word representation", EMNLP 2014.
/// The result does not depend on the memory. \throws ConfigError for less memory than 1 MiB
CooccurrenceSummary count_cooccurrences(const std::string& text_path, const CooccurrenceOptions& options,
                                        const ImportOutput& output);

}  // namespace unisono::data
