#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/data/preprocessing.hpp"
#include "unisono/data/settings.hpp"

namespace unisono::data {

enum class Split { train, validation, test };
inline constexpr std::array kSplits = {Split::train, Split::validation, Split::test};
std::string_view name_of(Split split);

/// What a split's examples have to be compared with.
struct Answers {
  bool labels = false;
  Index target_size = 0;  ///< values of a target; 0: none
};

/// What a set's examples are.
enum class SetKind {
  table,          ///< dense features
  sparse,         ///< rows of a sparse matrix
  ratings,        ///< of items by users
  text,           ///< sentences of words
  cooccurrences,  ///< how often words stand near each other
};
std::string_view name_of(SetKind kind);

struct DatasetInfo {
  SetKind kind = SetKind::table;
  FeatureShape features;  ///< of a table; of sparse rows: a channel for each column
  Index rows = 0;         ///< ratings: users; text, co-occurrences: words
  Index columns = 0;      ///< ratings: items; co-occurrences: words
  double mean_value = 0;  ///< of the training ratings
  double row_values = 0;  ///< sparse rows: how many values a training row has on average
  Index grid = 0;     ///< ratings: blocks along a side of the grid in which they are trained (unisono/data/grid.hpp)
  Index classes = 0;  ///< of labels; 0 where the set has none
  Index target_size = 0;  ///< values of a target; 0 where the set has none; features.size() for autoencoders
  std::int64_t train = 0, validation = 0, test = 0;  ///< examples
  std::array<Answers, 3> answers;                    ///< by Split
  std::uint64_t identity = 0;  ///< of shapes, sizes and a sample of the values: equal on all ranks
  bool resident = true;
  bool weighted = false;  ///< whether training examples have weights
  /// As in DataSettings; automatic where the set's recipe scales its columns.
  NormalizationKind normalization = NormalizationKind::none;
  ImageLayout layout = ImageLayout::automatic;  ///< chw or hwc where the features have four axes
  Index bytes_per_node =
      0;  ///< memory for resident data, or for the streaming window and at most two passes of the set
};

/// How batches reach the device that computes on them.
struct Delivery {
  Allocator* memory = &plain_allocator();  ///< where features and targets of batches lie; it outlives the sources
  KeepFeatures keep = {};                  ///< of resident sets; empty: batches have features
};

/// How the ranks share the micro-batches of a step.
enum class MicroBatchSharing {
  sliced,  ///< each is cut into the ranks' slices
  whole,   ///< each is one rank's; a rank takes consecutive ones
  own,     ///< a rank cuts its part of the step into as many of its own
};

/// This rank's place, what a step is.
struct SourceOptions {
  int rank = 0, size = 1;
  Index batch_size = 1;                                   ///< examples per step over all ranks
  Index micro_batches = 1;                                ///< that a step is divided into
  MicroBatchSharing sharing = MicroBatchSharing::sliced;  ///< of a global order; fixed parts are divided as `own` says
  std::uint64_t seed = 0;
  std::vector<float> class_weights = {};  ///< [K] of examples' losses, by their label; empty: all are 1
  int lane = 0, lanes = 1;  ///< of threads that share a rank's steps: this source has every `lanes`-th, from `lane` on
  Delivery delivery = {};
};

/// A pass over a split, prefetched; each example exactly once over all ranks, in the set's order.
class EvaluationSource {
 public:
  virtual ~EvaluationSource() = default;
  /// Nothing when this rank's part is exhausted.
  virtual std::optional<Batch> next() = 0;
  virtual std::int64_t first() const = 0;  ///< this rank's part is [first, last) of the split
  virtual std::int64_t last() const = 0;
};

/// An opened HDF5 set (docs/data-format.md). Knows ranks as plain integers.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual const DatasetInfo& info() const = 0;
  /// How its examples are read: for a trained model's checkpoints, and for sets that it is applied to later.
  virtual const Preprocessing& preprocessing() const = 0;
  /// "cat", "dog", …; empty where the file does not say.
  virtual const std::vector<std::string>& class_names() const = 0;
  /// How many training examples have each feature (sparse rows), or how often each word occurs (text,
  /// co-occurrences), or how many training ratings each user has and, behind all users, each item; empty for other
  /// sets, and where the file does not say.
  virtual const std::vector<std::int64_t>& occurrences() = 0;
  /// How many training examples each class has; empty where the set has no labels. The same on every rank, each of
  /// which counts on its own. \throws DataError
  virtual std::vector<std::int64_t> class_counts() { return {}; }
  /// Sources must not outlive the set.
  /// \throws ConfigError for a batch that the ranks' fixed parts cannot share, DataError
  virtual std::unique_ptr<BatchSource> train(const SourceOptions& options) = 0;
  virtual std::unique_ptr<EvaluationSource> evaluate(Split split, int rank, int size, Index batch_size,
                                                     const Delivery& delivery = {}) = 0;
  /// A pass over part i of so many of the training examples, in the set's order: as training sees them, with their
  /// weights, but not augmented. \param class_weights as SourceOptions has them
  virtual std::unique_ptr<EvaluationSource> training_part(int part, int parts, Index batch_size,
                                                          const std::vector<float>& class_weights,
                                                          const Delivery& delivery = {}) = 0;
};

/// How ranks open a set together. Default: this process alone.
struct NodeShare {
  int node_rank = 0, node_size = 1;
  int rank = 0, size = 1;  ///< in the job
  /// One copy of `bytes` that all ranks of the node see; collective over the node. \return its base, or null on all
  /// ranks of the node where there is none to be had: then each reads a copy of its own. It lives as long as the set.
  std::function<std::byte*(std::size_t bytes)> allocate;
  std::function<void()> barrier;  ///< over the node
  /// Every rank's text, on every rank; collective over all ranks of the job. With it they agree on how to read the set,
  /// and an error of one is an error of all.
  std::function<std::vector<std::string>(const std::string&)> gather;
};

/// Opens a set; collective over all ranks of the job, which end alike: an error on one is thrown on all.
/// \param share all members, or none: this process alone. It must outlive the set.
/// \param trained a trained model's, in place of one that is fitted on the training examples; the file then needs
///        neither a training group nor labels (batches of a set without them have none)
/// \throws DataError; with `trained` also where the file cannot be brought into the form that the model was trained on
std::unique_ptr<Dataset> open_dataset(const DataSettings& settings, std::uint64_t seed, const NodeShare& share = {},
                                      const Preprocessing* trained = nullptr);

/// What `open_dataset` would say of a set, without reading it into memory. \throws DataError
DatasetInfo inspect_dataset(const DataSettings& settings);

}  // namespace unisono::data
