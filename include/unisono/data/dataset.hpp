#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/data/preprocessing.hpp"
#include "unisono/data/unseen.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::data {

enum class Targets { automatic, features };

inline constexpr Named<Targets> kTargets[] = {{Targets::automatic, "auto", "the labels or targets in the file"},
                                              {Targets::features, "features", "the input itself, for autoencoders"}};

enum class Partition { automatic, global, fixed, strata };

inline constexpr Named<Partition> kPartitions[] = {
    {Partition::automatic, "auto",
     "fixed for networks with parameter servers, whose workers run at their own pace; otherwise global"},
    {Partition::global, "global",
     "each batch comes from one order of the whole set, and a rank gets a slice of it: P ranks give the result of one"},
    {Partition::fixed, "fixed",
     "each rank has its own part of the set for the whole run and shuffles within it: needs less memory and reads "
     "less"},
    {Partition::strata, "strata", "for ratings: each rank has the ratings of its users"}};

enum class Order { random, strata };

inline constexpr Named<Order> kOrders[] = {
    {Order::random, "random", "a new random order in every epoch"},
    {Order::strata, "strata", "for ratings: the blocks of the grid, one diagonal per step"}};

enum class WindowPlaces { consecutive, random };

inline constexpr Named<WindowPlaces> kWindowPlaces[] = {
    {WindowPlaces::consecutive, "consecutive",
     "one after the other, from an offset that each epoch has for itself: each token is predicted once an epoch"},
    {WindowPlaces::random, "random", "each anywhere, whatever the others cover; an epoch has as many windows"}};

enum class Reader { automatic, resident, streaming };

inline constexpr Named<Reader> kReaders[] = {
    {Reader::automatic, "auto",
     "resident if the set needs at most half of the free memory on every node, otherwise streaming"},
    {Reader::resident, "resident", "in memory, one copy per node"},
    {Reader::streaming, "streaming", "read from the file during training, ahead of use, and shuffled within a window"}};

/// What is held out for validation as a whole.
enum class SplitBy { automatic, rows, groups };

inline constexpr Named<SplitBy> kSplitBy[] = {
    {SplitBy::automatic, "auto", "groups where the file has train/groups, one for each example; otherwise rows"},
    {SplitBy::rows, "rows", "single examples, at random"},
    {SplitBy::groups, "groups",
     "all examples that have the same value in train/groups, at random, so that no group is in training and "
     "validation"}};

enum class ImageLayout { automatic, chw, hwc };

inline constexpr Named<ImageLayout> kImageLayouts[] = {
    {ImageLayout::automatic, "auto", "channels first; an error if channels last seem as likely"},
    {ImageLayout::chw, "chw", "[n, channels, height, width]"},
    {ImageLayout::hwc, "hwc", "[n, height, width, channels]"}};

enum class NormalizationKind { automatic, none, global, channel, feature };

inline constexpr Named<NormalizationKind> kNormalizations[] = {
    {NormalizationKind::automatic, "auto", "as the import of the data set said (--scale), otherwise none"},
    {NormalizationKind::none, "none", "no normalisation"},
    {NormalizationKind::global, "global", "one mean and standard deviation for all features"},
    {NormalizationKind::channel, "channel", "one mean and standard deviation per channel"},
    {NormalizationKind::feature, "feature", "one mean and standard deviation per feature"}};

/// What comes into an image where it is moved or turned.
enum class Fill { black, mean, reflect };

inline constexpr Named<Fill> kFills[] = {
    {Fill::black, "black", "zeros, before features are normalised"},
    {Fill::mean, "mean", "the mean of the training examples, which normalisation makes 0"},
    {Fill::reflect, "reflect", "the image, reflected at its edges"}};

/// `[data.augmentation]`, for images in training; mixup is for tables, too.
struct AugmentationSettings {
  std::int64_t crop_padding = 0;  ///< pixels of padding on each side, before a random crop back to the size
  bool horizontal_flip = false;
  std::int64_t shift = 0;  ///< at most so many pixels in each direction
  Fill fill = Fill::black;
  double crop_area = 1;  ///< a random part with at least this share of the area is scaled to the size; 1: no crop
  double crop_aspect = 4. / 3;  ///< its aspect is at most so many times that of the image, or a fraction of as much
  double rotation = 0;          ///< at most so many degrees in each direction
  double brightness = 0, contrast = 0, saturation = 0;  ///< factors from 1 − this to 1 + this
  double hue = 0;                                       ///< at most this part of the circle of hues in each direction
  double erasing = 0;                                   ///< probability that a rectangle is erased
  double mixup = 0, cutmix = 0;                         ///< α of the mixtures of two examples; 0: none
  void describe(ConfigVisitor& visitor);
};

/// `[data.pictures]`, for sets that hold the bytes of JPEG and PNG files.
struct PictureSettings {
  std::int64_t height = 0, width = 0;  ///< pixels of the images that they become; 0: as the set says
  double centre = 0;                   ///< ImageForm::centre of evaluated images; 0: as the set says
  std::int64_t threads = 0;            ///< threads of a rank that decode; 0: chosen automatically
  bool any() const { return height > 0 || width > 0 || centre > 0 || threads > 0; }
  void describe(ConfigVisitor& visitor);
};

/// `[data]`: which set is used, and how it is read.
struct DataSettings {
  std::string path = {};
  Targets targets = Targets::automatic;
  Partition partition = Partition::automatic;
  Order order = Order::random;  ///< the order of training examples, if they are shuffled
  Reader reader = Reader::automatic;
  std::int64_t window_bytes = 0;   ///< streaming: memory of the shuffle window; 0: chosen automatically
  double validation_fraction = 0;  ///< share of the training set for validation, if the file has no validation group
  std::int64_t split_seed = 1;     ///< seed of the division into training and validation examples
  SplitBy split_by = SplitBy::automatic;  ///< what the division into training and validation examples keeps together
  bool stratify = true;                   ///< whether the same fraction of each class is held out for validation
  ImageLayout layout = ImageLayout::automatic;  ///< order of the axes of images with channels
  NormalizationKind normalization = NormalizationKind::automatic;
  bool shuffle = true;
  std::int64_t context = 0;                          ///< sets of tokens: tokens of an example, T; 0: not given
  WindowPlaces windows = WindowPlaces::consecutive;  ///< sets of tokens: where shuffled windows begin
  std::int64_t arrangement_seed = -1;  ///< seed of the order in which sparse rows and ratings lie in memory; −1: `seed`
  bool external_files = false;         ///< whether the file may refer to values in other files
  std::string stage = {};              ///< folder on a local disk of each node for copies of sets; empty: none
  std::int64_t stage_bytes = 0;        ///< largest size of all copies there; 0: no limit
  PictureSettings pictures = {};
  AugmentationSettings augmentation = {};
  /// Not in the config: evaluated windows of a set of tokens begin so many tokens apart; 0: T. Each but the first
  /// counts only the tokens that the one before has not counted, so that they are predicted from T − stride tokens at
  /// least.
  std::int64_t stride = 0;
  /// Not in the config: whether a trained model, if there is one, was trained on this set.
  bool is_training_set = true;
  /// The setting that makes a run train in strata, as messages and the reference name it; empty: there is none.
  std::string_view strata_set_by = {};
  /// Whether this process holds all rows of a resident set also where each rank trains on a fixed part: simulated ranks
  /// share them. No key.
  bool holds_all_parts = false;
  void describe(ConfigVisitor& visitor);
};

enum class Split { train, validation, test };
inline constexpr std::array kSplits = {Split::train, Split::validation, Split::test};
std::string_view name_of(Split split);

/// Which labels or targets a split's examples have.
struct TargetForm {
  bool labels = false;
  Index target_size = 0;  ///< values of a target; 0: none
};

/// What a set's examples are.
enum class SetKind {
  table,          ///< dense features
  sparse,         ///< rows of a sparse matrix
  ratings,        ///< a value for a user and an item
  text,           ///< sentences of words
  cooccurrences,  ///< how often two words occur near each other
  tokens,         ///< a text as token numbers
};
std::string_view name_of(SetKind kind);
/// Whether steps of a set's examples can have any size, and be divided into micro-batches.
inline bool has_free_steps(SetKind kind) { return kind == SetKind::table || kind == SetKind::tokens; }

/// What a run needs to know of a set before it reads examples.
struct DatasetInfo {
  SetKind kind = SetKind::table;
  FeatureShape features;  ///< shape of a table's features; sparse rows: one channel for each column
  Index rows = 0;         ///< ratings: users; text, co-occurrences: words; tokens: how many there are, V
  Index columns = 0;      ///< ratings: items; co-occurrences: words
  double mean_value = 0;  ///< ratings: mean of the training ratings
  double row_values = 0;  ///< sparse rows: how many values a training row has on average
  Index grid = 0;         ///< ratings: the side, in blocks, of the grid for stratified training; else 0
  Index classes = 0;      ///< classes of the labels; 0 where the set has no labels
  Index target_size = 0;  ///< values of a target; 0 where the set has no targets; features.size() for autoencoders
  /// Whether an example may have several labels: a target has a 0 or 1 for each; Preprocessing::label_names.
  bool several_labels = false;
  std::vector<std::string> absent_labels = {};  ///< labels of a trained model that the set does not name
  /// Tokens: tokens of an example, T. Where there are `classes`, the examples are texts of up to T tokens; else
  /// windows.
  Index context = 0;
  TokenBytes token_bytes = {};                       ///< tokens: bytes of the text of each one; null: unknown
  std::int64_t train = 0, validation = 0, test = 0;  ///< examples
  std::array<std::int64_t, 3> tokens{};              ///< [3] tokens of each Split; 0 for other sets
  std::array<std::int64_t, 3> cut{};                 ///< [3] texts with classes: how many have more than T tokens
  std::array<TargetForm, 3> targets;                 ///< [3], by Split
  /// Where whole groups of training examples are held out for validation: how many there are, and how many are held
  /// out; else 0.
  std::int64_t groups = 0, held_out_groups = 0;
  std::uint64_t identity = 0;  ///< hash of shapes, sizes and a sample of the values; must be equal on all ranks
  bool resident = true;        ///< whether the set is held in memory; else it is streamed from the file
  bool weighted = false;       ///< whether training examples have weights
  bool augmented = false;      ///< whether training examples are changed at random
  bool mixed = false;          ///< whether training examples are mixed with others
  bool encoded = false;        ///< whether examples are pictures that are decoded whenever they are used
  /// Memory with which a thread decodes the largest of some pictures, evenly spaced; 0 where there are none.
  std::int64_t decoding_bytes = 0;
  /// How features are normalised: as DataSettings say, but automatic only where the set's recipe scales its columns.
  NormalizationKind normalization = NormalizationKind::none;
  ImageLayout layout = ImageLayout::automatic;  ///< chw or hwc where the features have four axes
  /// Memory for resident data, or for the streaming window and at most two passes of the set.
  Index bytes_per_node = 0;
};

/// How many threads of a rank decode pictures. \param node_ranks ranks on this node
int decoding_threads(const DataSettings& settings, int node_ranks);

/// How many tokens each example of a set has; 0 where texts differ in length, and for sets of other things.
inline Index tokens_of_example(const DatasetInfo& info) { return info.classes > 0 ? 0 : info.context; }

/// How batches reach the device that computes on them.
struct Delivery {
  Allocator* memory = &plain_allocator();  ///< holds features and targets of batches; must outlive the sources
  bool inputs = true;      ///< whether batches need features, or only examples' indices, labels and targets
  KeepFeatures keep = {};  ///< gives the features of a resident set to a device to keep; empty: batches have features
};

/// How the micro-batches of a step are divided among the ranks.
enum class MicroBatchSharing {
  sliced,  ///< each micro-batch is cut into one slice for each rank
  whole,   ///< each micro-batch belongs to one rank as a whole; a rank has consecutive ones
  own,     ///< each rank cuts its own part of the step into `micro_batches`
};

/// What Dataset::train is asked for: this rank's part of the steps, and their size.
struct SourceOptions {
  int rank = 0, size = 1;
  Index batch_size = 1;     ///< examples per step over all ranks
  Index micro_batches = 1;  ///< parts into which a step is divided
  /// Used with a global order; with fixed parts it is always `own`.
  MicroBatchSharing sharing = MicroBatchSharing::sliced;
  /// With MicroBatchSharing::whole: the micro-batches of a step form so many runs of consecutive ones (as many as there
  /// are micro-batches where these are fewer), which belong to one rank as a whole. 0: a rank's share is not rounded to
  /// runs.
  Index leaves = 0;
  /// An epoch's last step, where it has fewer examples than the others, is left out.
  bool drop_last = false;
  /// A last step with too few examples in a micro-batch is joined to the step before.
  bool join_last = true;
  LeastExamples least = {};
  std::uint64_t seed = 0;
  std::vector<float> class_weights = {};  ///< [K] weights of the losses by label; empty: all are 1
  int lane = 0, lanes = 1;  ///< this source yields steps lane, lane + lanes, …: for threads that make steps in turn
  std::string lanes_for = "making steps in turn";  ///< what needs lanes, as messages name it
  Delivery delivery = {};
  bool ahead = true;  ///< whether a thread prepares batches of tables while earlier ones are in use
};

/// One pass over a rank's part of a split, in the set's order, prefetched. The ranks' parts together contain each
/// example once.
class EvaluationSource {
 public:
  virtual ~EvaluationSource() = default;
  /// The next batch; nothing at the end of this rank's part. \throws DataError
  virtual std::optional<Batch> next() = 0;
  virtual std::int64_t first() const = 0;  ///< this rank's part of the split is [first, last)
  virtual std::int64_t last() const = 0;
};

/// A division of the examples of a file's group `train`: their row numbers there (from 0), ascending. No row is in both
/// parts; rows may be in neither.
struct Fold {
  std::vector<std::int64_t> train, validation;
};

/// The label, or the targets, that all examples of a split have.
struct CommonAnswer {
  std::string text;                        ///< "the class 'cat'", "the target 3.5", "the same 3 targets"
  std::optional<std::int32_t> label = {};  ///< the class; nothing where examples have targets
};

/// An opened HDF5 set (docs/data-format.md). Knows ranks as plain integers.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetInfo& info() const = 0;
  /// How the set's examples are preprocessed. A run stores this in its checkpoints, so that other sets can be read in
  /// the same way.
  virtual const Preprocessing& preprocessing() const = 0;
  /// Names of the classes: "cat", "dog", …; empty if the file does not name them.
  virtual const std::vector<std::string>& class_names() const = 0;
  /// How many training examples have each feature (sparse rows); how often each word occurs (text, co-occurrences); or
  /// how many training ratings each user and then each item has (ratings). Empty for other sets, and if the file does
  /// not say.
  virtual const std::vector<std::int64_t>& occurrences() = 0;
  /// How many training examples each class has; empty if the set has no labels. Not collective: each rank counts all of
  /// them. \throws DataError
  virtual std::vector<std::int64_t> class_counts() { return {}; }
  /// What all examples of a split have in common. Nothing if two of them differ, and for a split without examples,
  /// labels or targets. Not collective. \throws DataError
  virtual std::optional<CommonAnswer> common_answer(Split) { return std::nullopt; }
  /// Whether each class has a training example; where the set was opened with a trained model, one among those that the
  /// model was trained on. Empty if the set has no labels. Not collective. \throws DataError
  virtual std::vector<bool> seen_classes() { return {}; }
  /// The examples of a split about which the training examples say nothing: of classes that are not in seen_classes(),
  /// or of users and items without training ratings. Computed once. Not collective. \throws DataError
  virtual Unseen unseen(Split) { return {}; }
  /// The names of the files that a split's examples were made of, in the split's order; empty where the set does not
  /// name them. Not collective. \throws DataError
  virtual std::vector<std::string> file_names(Split) const { return {}; }
  /// This rank's training batches. The source must not outlive the set.
  /// \throws ConfigError for a batch too small to give each rank's fixed part an example, or a micro-batch as many as
  /// it needs at least, DataError
  virtual std::unique_ptr<BatchSource> train(const SourceOptions& options) = 0;
  /// A pass over rank `rank`'s of `size` parts of a split. \param batch_size examples at once
  virtual std::unique_ptr<EvaluationSource> evaluate(Split split, int rank, int size, Index batch_size,
                                                     const Delivery& delivery = {}) = 0;
  /// A pass over part `part` of `parts` of the training examples, in the set's order, as training sees them: with their
  /// weights, but not augmented. Examples in memory that need no conversion are not copied, and a pass over them starts
  /// no thread; where the set is a table, the batches of such a pass have no `examples`, and may have fewer examples
  /// than `batch_size`.
  /// \param class_weights [K] weights of the losses by label; empty: all are 1
  virtual std::unique_ptr<EvaluationSource> training_part(int part, int parts, Index batch_size,
                                                          const std::vector<float>& class_weights,
                                                          const Delivery& delivery = {}) = 0;
  /// This set with a fold's rows as its training and validation examples; the test split stays. Preprocessing is fitted
  /// on the fold's training rows alone. A validation pass goes in the order of `fold.validation`. What is the same in
  /// all folds is not copied; a fold of few sparse rows, of ratings, or with a recipe fitted on its own rows has a copy
  /// of its rows, which all views of the same fold share. The view is for the ranks that opened this set, and must not
  /// outlive it. Not collective; threads of a process may make and use views of their own at the same time.
  /// \pre the set was opened without `trained`
  /// \throws ConfigError if the set is streamed, text, tokens or co-occurrences, or if data.validation_fraction or
  /// partition contradict the fold; DataError for rows that are no division of the group `train`, or that the recipe
  /// cannot encode
  virtual std::unique_ptr<Dataset> fold_view(const Fold& fold) const = 0;
  /// This set with the same examples, over the same memory, for another thread. Like a fold_view it is for the ranks
  /// that opened this set, and must not outlive it. Not collective. Null where the set is streamed, or each rank holds
  /// examples of its own.
  virtual std::unique_ptr<Dataset> view() const = 0;
};

/// What the ranks that open a set together provide. Default: this process alone.
struct NodeShare {
  int node_rank = 0, node_size = 1;
  int rank = 0, size = 1;  ///< this rank's number in the job, and the number of its ranks
  /// Allocates `bytes` of memory that all ranks of the node share; collective over the node. \return its base, or null
  /// on all ranks of the node if there is none: each then reads a copy of its own. The memory must live as long as the
  /// set.
  std::function<std::byte*(std::size_t bytes)> allocate;
  std::function<void()> barrier;  ///< a barrier over the ranks of the node
  /// An all-gather of strings over all ranks of the job, used to agree on how to read the set, and to throw an error of
  /// one rank on all.
  std::function<std::vector<std::string>(const std::string&)> gather;
};

/// Opens a set. Collective over all ranks of the job: an error on one is thrown on all.
/// \param share either all of its members or none (this process alone). It must outlive the set.
/// \param trained the preprocessing of a trained model; null: it is fitted on the training examples. With it the file
/// needs neither a training group nor labels (batches then have none)
/// \throws DataError; with `trained` also where the file cannot be brought into the form that the model was trained on
std::unique_ptr<Dataset> open_dataset(const DataSettings& settings, std::uint64_t seed, const NodeShare& share = {},
                                      const Preprocessing* trained = nullptr);

/// The `info()` that `open_dataset` would give, without reading the set into memory. \throws DataError
DatasetInfo inspect_dataset(const DataSettings& settings);

// What folds are made from: something about each example of a file's group `train`, in its order. Read from the file,
// by this process alone.

/// How many training examples a file has: rows, ratings or sentences; of a set of tokens, how many tokens. \throws
/// DataError
std::int64_t count_training_rows(const DataSettings& settings);

/// The class labels of a file's training examples; empty if there are none. \throws DataError
std::vector<std::int32_t> read_training_labels(const DataSettings& settings);

/// Whether a file's training examples have groups, /train/groups. \throws DataError
bool has_training_groups(const DataSettings& settings);

/// A column of a file's training examples: the one-dimensional dataset /train/<name>, or else a column of a table's
/// features that has this name. Whole numbers are given as they are; texts, categories and fractions as the numbers of
/// their different values in ascending order.
/// \throws DataError if there is no such column, or if it has not one value for each example
std::vector<std::int64_t> read_training_column(const DataSettings& settings, const std::string& name);

/// Describes a set in some lines of text, for `unisono data describe`: groups, shapes, types, chunking, ranges, class
/// balance, a few images.
/// \param external_files whether the file may refer to values in other files
/// \throws DataError if the file is not a data set
std::string describe_set(const std::string& path, bool external_files = false);

/// How much the training examples of a set overlap, which decides how often lock-free updates collide. An example is a
/// hyperedge over what it touches: its features, or its user and its item (Niu, Recht, Ré & Wright, "Hogwild!", NIPS
/// 2011, section 3).
struct Sparsity {
  std::int64_t omega = 0;    ///< Ω: how many features (or user and item) the largest example touches
  double delta = 0;          ///< Δ: share of the examples that touch the most frequent feature, user or item
  double rho = 0;            ///< ρ: largest share of the examples that overlap with a single example
  double rho_at_random = 0;  ///< the share for a random example: the probability that two examples overlap
};

/// Computes the Sparsity of sparse rows and ratings; nothing for other sets. For rows, ρ is computed over the 64
/// examples with the most frequent features, and ρ at random over 64 random ones. Reads the training group's ratings
/// twice, or its feature numbers four times. \throws DataError
std::optional<Sparsity> sparsity_of(const DataSettings& settings);

/// A cyclic (round-robin) distribution of things 0 … n−1 to parts: thing i goes to part i mod parts and has number i /
/// parts there. The parts' sizes differ by at most 1, and neighbouring numbers go to different parts.
struct CyclicDistribution {
  Index things = 0, parts = 1;

  /// How many things part `part` has.
  Index size(Index part) const { return (things - part + parts - 1) / parts; }
  /// How many things the largest part has.
  Index largest() const { return size(0); }
};

}  // namespace unisono::data
