#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/data/images.hpp"
#include "unisono/data/preprocessing.hpp"
#include "unisono/data/tokenizer.hpp"

// Makers of sets in the layout of docs/data-format.md. Each writes beside its output and renames at the end: what
// stands at `output` is never half a set. All throw DataError for input that is not as it should be, naming the file,
// the line or byte and the reason, and OutputError where the output cannot be written or exists and may not be
// overwritten.
namespace unisono::data {

/// The file that an import makes.
struct ImportOutput {
  std::string path;        ///< path of the HDF5 file to be made
  bool overwrite = false;  ///< whether to replace a file that is there
  int compression = 0;     ///< gzip level, 0 (none) to 9
};

/// How rows of a table are chosen for the validation and test groups.
enum class TableSplit { automatic, random, group, time, by_class };

inline constexpr Named<TableSplit> kTableSplits[] = {
    {TableSplit::automatic, "auto", "by group where there is a column of groups, else at random"},
    {TableSplit::random, "random", "at random"},
    {TableSplit::group, "group", "whole groups at random"},
    {TableSplit::time, "time", "the latest rows"},
    {TableSplit::by_class, "class", "at random, the same share of each class"}};

/// What the labels of an input are.
enum class Task { automatic, classes, regression };

inline constexpr Named<Task> kTasks[] = {{Task::automatic, "auto",
                                          "classes if there are at most 100 of them; more numbers are asked about. In "
                                          "LIBSVM files, fractions are regression"},
                                         {Task::classes, "classes", "classes"},
                                         {Task::regression, "regression", "numbers to predict"}};

/// A column of an imported table, for the log: "age", "number", "17 to 90".
struct ImportedColumn {
  std::string name, role, what;
  bool plain = false;  ///< whether it is a number about which there is nothing to say
};

/// What an import has made: for a line of log.
struct ImportSummary {
  std::string path;
  std::int64_t train = 0, validation = 0, test = 0;  ///< examples
  std::vector<std::int64_t> shape;                   ///< shape of an example's features
  std::int64_t classes = 0;                          ///< number of classes; 0: no labels
  std::int64_t several_labels = 0;                   ///< labels of which an example may have several; 0: none
  bool targets = false;                              ///< whether there are numbers to predict
  std::vector<std::string> feature_names = {};       ///< tables: names of the features, in their order
  std::int64_t empty_rows = 0, unlabelled_rows = 0;  ///< tables: rows that were left out
  std::vector<ImportedColumn> columns = {};          ///< tables: all columns
  std::string delimiter = {};                        ///< tables: what separates the columns
  bool header = false;                               ///< tables: whether the file begins with the names of the columns
  TableSplit split = TableSplit::random;             ///< tables: how the rows were divided
  std::vector<std::string> warnings = {};            ///< about the set that was made
};

/// Imports the four files of MNIST, Fashion-MNIST and their like, gzipped or not: train-images-idx3-ubyte,
/// train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (or with a dot before "idx"). The t10k pair
/// may be missing.
ImportSummary import_idx(const std::string& folder, const ImportOutput& output);

/// Imports CIFAR-10's binary version: data_batch_1.bin … data_batch_5.bin, test_batch.bin, batches.meta.txt (may be
/// missing).
ImportSummary import_cifar10(const std::string& folder, const ImportOutput& output);

/// What import_images makes of pictures.
struct ImagesOptions {
  ImageForm form;
  /// Whether the set keeps the bytes of the files, which become images whenever they are used; otherwise it holds the
  /// images.
  bool encoded = false;
  bool verifies = false;  ///< encoded: whether each file is decoded once, to find all damage
  std::string list = {};  ///< a table of the files and their classes; empty: folders say the classes
  // Columns of the table, by name.
  std::string file_column = "file", label_column = "label";
  // Pictures of several labels each: what stands between those of a cell; or columns of 0 and 1, one for each label.
  // Both empty: a picture has one class.
  std::string label_separator = {};
  std::vector<std::string> label_columns = {};
  std::string split_column = {};                      ///< train, validation or test; empty: the files are chosen
  bool skips_damaged = false;                         ///< whether damaged files are left out, and not refused
  double validation_fraction = 0, test_fraction = 0;  ///< of the pictures, where the folder does not divide them
  std::uint64_t seed = 1;                             ///< seed of the random choice of pictures
};

/// Imports a folder with a folder of JPEG or PNG files for each class; or one with the folders train and maybe val (or
/// valid, validation) and test, each of which has folders of classes; or the files of a folder that a table names, with
/// their classes. All images of the set have the same form. Memory: some hundred pictures, and the names of the files.
/// Where files are kept, damage is found in their headers, at their ends, and by PNG's checksums; the rest of it only
/// where `verifies` has them decoded. \throws ConfigError for options that do not fit the folder
ImportSummary import_images(const std::string& folder, const ImagesOptions& options, const ImportOutput& output);

/// Whether a file's first line holds the names of the columns.
enum class Header { automatic, yes, no };

inline constexpr Named<Header> kHeaders[] = {{Header::automatic, "auto", "what the first lines look like"},
                                             {Header::yes, "yes", "it does"},
                                             {Header::no, "no", "it holds values"}};

/// What import_csv makes of a table's columns and rows.
struct CsvOptions {
  // A column is named by its name in the header, or by its number: 1 is the first, −1 the last.
  std::string label = {};       ///< the column of classes
  std::string target = {};      ///< the column of numbers to be predicted, in place of classes
  Task task = Task::automatic;  ///< what the column of `label` holds
  /// Columns of 0 and 1, one for each of several labels that a row may have, in place of classes.
  std::vector<std::string> label_columns = {};
  std::vector<std::string> exclude = {};  ///< columns that are no features
  std::vector<std::string> include =
      {};  ///< columns that are features, though they look like numbers of rows, or dates
  std::vector<std::string> categorical = {};  ///< columns whose numbers are names: one feature for each
  std::vector<std::string> dates = {};        ///< columns of dates: year, month, weekday, days since 1970, hour
  DateOrder date_order = DateOrder::ymd;      ///< how these are written
  TableForm form = {};                        ///< how the table is written; kept in the recipe, for tables to predict
  Header header = Header::automatic;
  // The recipe: how a run turns the columns into features, with what it finds in its own training rows.
  Scaling scale = Scaling::standard;  ///< scaling of columns of numbers
  Missing missing = Missing::error;
  Unknown unknown = Unknown::error;
  bool drop_missing_labels = false;    ///< whether rows without a label or target are left out
  std::int64_t minimum_frequency = 1;  ///< a level that fewer training rows have is unknown
  // Columns that say something about the rows, and are no features; or empty.
  std::string group = {};   ///< rows of one group belong together: /train/groups
  std::string time = {};    ///< numbers, or dates (2024-02-29, 2024-02-29T18:30:00): /train/times
  std::string weight = {};  ///< how much a row counts in training, at least 0: /train/weights
  TableSplit split = TableSplit::automatic;
  double validation_fraction = 0, test_fraction = 0;  ///< fractions of the rows
  std::uint64_t seed = 1;                             ///< seed of the random choice of rows
  std::string test_file = {};                         ///< a second table, whose rows are the test group; or empty
};

/// Imports a table with columns separated by comma, semicolon, tab, bar or blanks, compressed with gzip or zstd or not.
/// It may be in several files with the same columns, whose rows follow each other. The set holds raw values, numbers
/// and the numbers of levels, and a recipe (see preprocessing.hpp). Classes are numbered in the order of their numbers,
/// or of the alphabet. Without label and target the set has features alone. \throws ConfigError for options that
/// contradict each other or name a column that is not there
ImportSummary import_csv(const std::vector<std::string>& paths, const CsvOptions& options, const ImportOutput& output);
inline ImportSummary import_csv(const std::string& path, const CsvOptions& options, const ImportOutput& output) {
  return import_csv(std::vector<std::string>{path}, options, output);
}

/// Which arrays become a set, and how their rows are divided. An array is named by its file (.npy), or by its name in
/// a file (.npz, HDF5). Several of a kind follow each other, row by row.
struct ArrayOptions {
  std::vector<std::string> features = {};              ///< [n], or [n, …] with up to three more axes
  std::vector<std::string> labels = {}, targets = {};  ///< [n] or [n, 1]: classes, or numbers to predict; or empty
  std::vector<std::string> test_features = {};         ///< of the test group; or empty
  std::vector<std::string> test_labels = {}, test_targets = {};
  Task task = Task::automatic;                        ///< what the labels are
  ImageLayout layout = ImageLayout::automatic;        ///< order of the axes of images, which the set keeps
  TableSplit split = TableSplit::automatic;           ///< random or by_class
  double validation_fraction = 0, test_fraction = 0;  ///< fractions of the rows
  std::uint64_t seed = 1;                             ///< seed of the random choice of rows
};

/// Imports arrays of NumPy, one in each file: booleans, integers and floats of up to 64 bits, in either byte order, in
/// the order of C or Fortran. Bytes stay bytes, which stand for 0 to 1 where rows have two axes or more; other numbers
/// become float32. Classes are numbered in the order of their labels. Memory: some rows; a whole array in Fortran's
/// order. \throws ConfigError for options that contradict each other, or name an array that is not there
ImportSummary import_npy(const ArrayOptions& options, const ImportOutput& output);
/// Likewise arrays of numpy.savez, by their names in each of the files.
ImportSummary import_npz(const std::vector<std::string>& paths, const ArrayOptions& options,
                         const ImportOutput& output);
/// Likewise datasets of HDF5 files of any layout.
ImportSummary import_hdf5(const std::vector<std::string>& paths, const ArrayOptions& options,
                          const ImportOutput& output);

/// The form of the data that a model was trained on, into which files in other formats than HDF5 are brought.
struct RawForm {
  SetKind kind = SetKind::table;
  FeatureShape features;  ///< sparse rows: one channel for each column
  const Preprocessing& preprocessing;
};

/// Converts a file to which a trained model is to be applied into a set whose only group is `test`. Formats: CSV for
/// models of tables with named columns; LIBSVM for models of sparse rows; for models of pictures a JPEG or PNG file, or
/// a folder of them; for models of other stored features IDX images, a NumPy array (.npy) with an example in each row,
/// or a folder of .npy files with one example each (in the order of their names). Labels and targets are kept if the
/// model knows all of them. \return why the file's labels or targets were left out; empty if they were not, or if there
/// are none \throws DataError for a file that cannot be brought into the form that the model was trained on
std::string import_raw(const std::string& input, const RawForm& form, const ImportOutput& output);

/// What a trained model sees of the rows of a CSV file, which are made in memory: [rows, features], encoded and
/// normalised as the training examples were. \param text the file's bytes, with the line of names where the training
/// table had one \param name of the file, for messages \throws DataError as import_raw
std::vector<float> features_of_table(std::string_view text, const std::string& name, const RawForm& form);
/// Checks the line of names of such a file. \throws DataError as features_of_table
void check_names_of_table(std::string_view line, const std::string& name, const RawForm& form);
/// What a trained model sees of values that are stored as those of the training set were. \param stored [examples, C,
/// H, W]
std::vector<float> features_of_values(std::span<const float> stored, const RawForm& form);

/// The texts of some columns of a CSV file to which a trained model is to be applied, row by row in the order of the
/// set that import_raw makes of the file: [rows][names]. \throws ConfigError for a column that is not there
std::vector<std::vector<std::string>> read_raw_columns(const std::string& input, const Preprocessing& preprocessing,
                                                       const std::vector<std::string>& names);

/// A path in a folder for the temporary set that import_raw makes, unique to this process. Making a set there also
/// removes temporary sets that killed processes have left in the folder.
std::string temporary_set(const std::string& folder);

/// Replaces the path of a temporary set, made by any process in `folder`, in a message by `name`, the file from which
/// the set was made.
std::string name_temporary_set(std::string message, const std::string& folder, const std::string& name);

// Makers of sparse sets: few values out of many columns, ratings, words, and how often words occur together. The
// layouts are in docs/data-format.md. Inputs may be gzipped. Each is read once, in pieces; what was found is set aside
// in a temporary file beside the output, and arranged from there. The top of this file says what they throw.

/// Which index the first column of a LIBSVM file has.
enum class IndexBase { automatic, zero, one };

inline constexpr Named<IndexBase> kIndexBases[] = {
    {IndexBase::automatic, "auto", "0 if that index occurs, otherwise 1"},
    {IndexBase::zero, "0", "0"},
    {IndexBase::one, "1", "1"}};

/// How a run scales columns of sparse rows.
inline constexpr Named<Scaling> kSparseScalings[] = {
    {Scaling::none, "none", "as they are"},
    {Scaling::standard, "standard", "over the standard deviation; zeros stay zeros"}};

/// How import_libsvm reads its files and divides the examples.
struct LibsvmOptions {
  std::int64_t columns = 0;  ///< columns of the set; 0: as many as the largest index needs
  IndexBase base = IndexBase::automatic;
  Task task = Task::automatic;
  Scaling scale = Scaling::none;
  double validation_fraction = 0, test_fraction = 0;  ///< fractions of the examples, chosen at random
  std::uint64_t seed = 1;                             ///< seed of the random choice
  std::string test_file = {};                         ///< a further file, whose examples are the test group; or empty
};

/// What an import of LIBSVM files has made, and what it has found in them.
struct SparseSummary {
  std::string path;
  std::int64_t train = 0, validation = 0, test = 0;  ///< examples
  std::int64_t columns = 0, nonzeros = 0;            ///< nonzeros of all examples
  std::int64_t base = 0;                             ///< the first column's index in the input
  bool all_ones = false;                             ///< whether all values are 1, so that none are stored
  std::vector<std::string> classes = {};             ///< names of the classes; empty: there are numbers to predict
  std::vector<std::string> warnings = {};            ///< about the set that was made
};

/// Imports text of LIBSVM and SVMlight: a line is `label index:value …`, with indices that ascend, and maybe `# a
/// comment`. Classes are numbered in the order of their labels. Memory: none that grows with the examples.
SparseSummary import_libsvm(const std::vector<std::string>& paths, const LibsvmOptions& options,
                            const ImportOutput& output);

/// Which ratings are for testing.
enum class RatingSplit { none, random, leave_one_out, time };

inline constexpr Named<RatingSplit> kRatingSplits[] = {
    {RatingSplit::none, "none", "none: all are for training"},
    {RatingSplit::random, "random", "a fraction of them, chosen at random"},
    {RatingSplit::leave_one_out, "leave_one_out", "each user's last rating (by time, or by line), if there is another"},
    {RatingSplit::time, "time", "the latest fraction"}};

/// How import_ratings reads its files and divides the ratings.
struct RatingsOptions {
  TableForm form = {};                ///< how the files are written; the delimiter may be ::, too
  Header header = Header::automatic;  ///< whether each file begins with a header line
  /// The columns, as in "user=userId,item=movieId,rating=3[,time=4]": names of the header line, or numbers from 1.
  /// Empty: by the names of the header line where these say it, else the first three or four columns in this order.
  std::string columns = {};
  /// Which ratings are for testing. Validation takes its fraction of the others, with RatingSplit::time the latest of
  /// them, else at random.
  RatingSplit split = RatingSplit::random;
  double validation_fraction = 0, test_fraction = 0;
  std::uint64_t seed = 1;      ///< seed of the random choice
  std::string test_file = {};  ///< a further file, whose ratings are the test group; or empty
};

/// What import_ratings has made, and what it has found in the files.
struct RatingsSummary {
  std::string path;
  std::int64_t train = 0, validation = 0, test = 0;  ///< ratings
  std::int64_t users = 0, items = 0;
  bool times = false;
  std::string delimiter, header;  ///< of the first file, as they were found; no header line: `header` is empty
  std::string columns;            ///< columns of the first file: "user: userId, item: movieId, rating: column 3"
};

/// Imports lines of a user, an item, a rating and maybe a time. Users and items are any words of UTF-8, numbered in the
/// order in which they come first, in the test file last. Memory: the words, and a byte a rating (9 for the split by
/// time).
RatingsSummary import_ratings(const std::vector<std::string>& paths, const RatingsOptions& options,
                              const ImportOutput& output);

/// Which words and sentences import_text keeps, and how it divides the sentences.
struct TextOptions {
  std::int64_t minimum_count = 5;       ///< words that occur more seldom are left out
  std::int64_t maximum_words = 0;       ///< how many of the most frequent words are kept; 0: all
  std::int64_t sentence_length = 1000;  ///< words of a sentence; longer sentences are cut there
  bool lowercase = false;
  bool strip_punctuation = false;  ///< leave out the marks at both ends of a word, and words of marks alone
  Encoding encoding = Encoding::utf8;
  double test_fraction = 0;  ///< fraction of the sentences, chosen at random
  std::uint64_t seed = 1;    ///< seed of the random choice
};

/// What import_text has made, and what it has found in the files.
struct TextSummary {
  std::string path;
  std::int64_t train = 0, test = 0;                       ///< words
  std::int64_t train_sentences = 0, test_sentences = 0;   ///< sentences that are not empty
  std::int64_t vocabulary = 0, distinct = 0, in_all = 0;  ///< words of the set; of the input; the input's length
};

/// Imports any UTF-8 text, from files, and from folders with all that is in them, in alphabetical order. A line is a
/// sentence. Words are what stands between blanks, numbered from the most frequent one on, those of the same frequency
/// by their bytes. Memory: the distinct words, and a sentence.
TextSummary import_text(const std::vector<std::string>& paths, const TextOptions& options, const ImportOutput& output);

/// What a document of a text is.
enum class Documents { files, lines };

inline constexpr Named<Documents> kDocuments[] = {{Documents::files, "files", "a file"},
                                                  {Documents::lines, "lines", "a line that is not empty"}};

/// Which part of the text is for validation and testing.
enum class TokenSplit { automatic, end, documents };

inline constexpr Named<TokenSplit> kTokenSplits[] = {
    {TokenSplit::automatic, "auto", "documents if there are several, otherwise the end"},
    {TokenSplit::end, "end", "the end of the text: training, then validation, then test"},
    {TokenSplit::documents, "documents", "whole documents, chosen at random"}};

/// How import_tokens divides texts into documents and tokens.
struct TokensOptions {
  TokenizerKind tokenizer = TokenizerKind::bytes;
  std::string vocabulary = {}, merges = {};          ///< gpt2: the files vocab.json and merges.txt
  std::string model = {};                            ///< sentencepiece: the model's file
  std::string tokenizer_from = {};                   ///< a set of tokens whose tokenizer is taken instead; or empty
  std::shared_ptr<const TokenizerParts> known = {};  ///< a model's tokenizer, taken instead; null: none
  /// Each row of the files, which are CSV tables, is a document with a class: the columns of texts and classes, by
  /// name, or by number where there is no line of names; or empty.
  std::string text_column = {}, label_column = {};
  std::string delimiter = "auto";  ///< of such tables: as in TableForm
  Documents documents = Documents::files;
  std::string separator = {};  ///< a text between two documents of a file; empty: there is none
  Encoding encoding = Encoding::utf8;
  TokenSplit split = TokenSplit::automatic;
  double validation_fraction = 0, test_fraction = 0;  ///< of the tokens, or of the documents
  std::uint64_t seed = 1;                             ///< seed of the random choice of documents
  std::string validation_file = {}, test_file = {};   ///< texts that are these groups instead; or empty
};

/// What import_tokens has made, and what it has found in the texts.
struct TokensSummary {
  std::string path;
  std::array<std::int64_t, 3> tokens{};   ///< by Split
  std::int64_t documents = 0, bytes = 0;  ///< of all texts
  std::int64_t vocabulary = 0;            ///< how many tokens there are
  std::string tokenizer;                  ///< its name
  TokenSplit split = TokenSplit::end;     ///< how the text was divided
  // Texts with classes; else empty.
  std::array<std::int64_t, 3> texts{};              ///< by Split
  std::vector<std::string> classes = {};            ///< their names
  std::int64_t median_tokens = 0, most_tokens = 0;  ///< of a text
  std::vector<std::string> warnings = {};
};

/// Imports texts for language models, or, where options name columns, for classifiers of texts: files, and folders with
/// all that is in them, in alphabetical order. If a group has several documents, the token of the end of a text stands
/// after each of them; bytes and characters then have such a token, as their last one. Memory: a document with
/// SentencePiece; otherwise some megabytes, and about 100 bytes for each document. \throws ConfigError for options that
/// do not fit each other
TokensSummary import_tokens(const std::vector<std::string>& paths, const TokensOptions& options,
                            const ImportOutput& output);

/// What count_cooccurrences counts, and with how much memory.
struct CooccurrenceOptions {
  std::int64_t window = 15;                             ///< words on each side
  bool symmetric = true;                                ///< false: row is the left word, column the right one
  std::uint64_t memory_bytes = std::uint64_t{4} << 30;  ///< memory for counting; what does not fit goes to the disk
  std::uint64_t seed = 1;                               ///< seed of the entries' order
  bool external_files = false;                          ///< whether the set of text may refer to values in other files
};

/// What count_cooccurrences has made.
struct CooccurrenceSummary {
  std::string path;
  std::int64_t entries = 0, vocabulary = 0;
  std::int64_t runs = 0;  ///< how often counts were written: when memory was full, and once for the rest
};

/// Counts how often words occur near each other in the training sentences of a set of text: two words that are d ≤
/// window places apart in a sentence add 1/d. The entries come in a random order, as training wants them.
///   Pennington, Socher & Manning, "GloVe: global vectors for word representation", EMNLP 2014.
/// The result does not depend on the memory. \throws ConfigError for less memory than 1 MiB
CooccurrenceSummary count_cooccurrences(const std::string& text_path, const CooccurrenceOptions& options,
                                        const ImportOutput& output);

inline constexpr int kDigitSide = 28;  ///< pixels of a digit's side

/// A grey image of a digit.
struct Digit {
  std::uint8_t label = 0;                                      ///< 0 to 9, uniform
  std::array<std::uint8_t, kDigitSide * kDigitSide> pixels{};  ///< row-major; 0: paper, 255: ink
};

/// Synthesizes handwritten digit number `index`: the strokes of one of several ways of writing it, with tremor, random
/// scale, slant, rotation, shift, elastic distortion, pen width and noise. A function of (seed, index) alone.
Digit draw_digit(std::uint64_t seed, std::uint64_t index);

/// The arguments of `unisono data digits`.
struct DigitsOptions {
  std::int64_t train = 60000, validation = 0, test = 10000;  ///< examples
  std::uint64_t seed = 1;
};

/// Writes a set of synthetic digits. Training examples have indices 0, 1, …; the other groups' indices start far away,
/// so that a group's first examples do not depend on the groups' sizes.
ImportSummary make_digits(const DigitsOptions& options, const ImportOutput& output);

}  // namespace unisono::data
