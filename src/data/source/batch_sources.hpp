#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "dense/feature_writer.hpp"
#include "dense/rows.hpp"
#include "order/schedule.hpp"
#include "unisono/base/threads.hpp"

namespace unisono::data {

/// A batch and the memory to which it points.
struct PreparedBatch {
  Buffer features, targets;
  std::vector<std::int32_t> labels, other_labels;
  std::vector<float> weights, other_shares;
  std::vector<std::uint64_t> examples;
  std::vector<Movement> movements;
  Batch batch;
};

/// What a batch contains of a group's examples, and how it is made.
struct BatchStyle {
  bool labels = false;
  Index target_size = 0;  ///< 0: no targets
  bool features_are_targets = false;
  bool inputs = true;  ///< false: batches have no features, unless these are targets, too
  AugmentationSettings augmentation;
  std::uint64_t seed = 0;
  std::vector<float> class_weights = {};  ///< by label; empty: all are 1
  bool example_weights = false;           ///< whether the examples have weights of their own
  int threads = 1;                        ///< that decode pictures
};

/// The examples of a micro-batch in memory.
struct GatheredExamples {
  std::vector<RawExample> examples;   ///< of the batch; behind them, others that are mixed into these
  std::vector<std::size_t> partners;  ///< [B] which of `examples` is mixed into each; empty: none is
};

/// Converts, normalises and augments examples into batches.
class BatchWriter {
 public:
  BatchWriter(const GroupSchema& group, const Normalization& normalization, const BatchStyle& style);

  /// Offers these rows to a device to keep. If it accepts, batches have no features from now on, only the examples'
  /// indices and, with augmentation, `movements`.
  /// \param rows the group's, in memory \param keep may be empty, and may decline
  void deliver_kept(const RowBlock& rows, const KeepFeatures& keep);

  /// Allocates memory for batches of up to `largest` examples.
  PreparedBatch make(Index largest, Allocator& memory) const;
  /// Writes examples into a batch, and copies its other members from `header`.
  void write(const GatheredExamples& gathered, const Batch& header, PreparedBatch& prepared);

 private:
  /// What a thread needs to write features.
  struct Worker {
    FeatureWriter writer;
    StoredNumbers numbers;
  };

  void write_features(const GatheredExamples& gathered, std::int64_t epoch, PreparedBatch& prepared);
  void write_features(Worker& worker, const RawExample& example, std::int64_t epoch, float* out) const;
  /// Calls act(worker, i) for i = 0 … count − 1, on all threads.
  template <typename Act>
  void for_each(std::size_t count, const Act& act);
  void write_answer(const RawExample& example, std::size_t i, PreparedBatch& prepared) const;
  /// Writes the mixture of two examples' labels, targets and weights.
  void write_answer(const RawExample& own, const RawExample& other, const Mixing& mixing, std::size_t i,
                    PreparedBatch& prepared) const;
  /// The stored numbers of an example, or of the part of it that augmentation chooses.
  const std::byte* numbers_of(Worker& worker, const RawExample& example, std::int64_t epoch) const;
  /// Brings the features of the next example near: rows come in random order, which the processor cannot guess.
  void fetch_ahead(const RawExample& example) const;
  /// The factor of an example's loss: its own weight times its class's.
  float weight_of(const RawExample& example) const;
  bool mixes() const { return mixes_examples(style_.augmentation); }
  bool has_weights() const { return style_.example_weights || !style_.class_weights.empty(); }

  BatchStyle style_;
  FeatureShape shape_;
  bool are_pictures_;                 ///< whether examples are decoded
  std::vector<Worker> workers_;       ///< one for each thread
  std::shared_ptr<ThreadTeam> team_;  ///< null until pictures are decoded
  bool changes_;                      ///< whether images are changed at random
  std::vector<Mixing> mixings_;       ///< of the examples of a batch
  std::vector<float> unmixed_;        ///< features of the examples of a batch and of their partners
  KeptFeatures* kept_ = nullptr;
  std::size_t feature_size_, target_size_;  ///< of an example in a batch; 0 features if a device keeps them
  std::size_t movement_size_ = 0;           ///< 1 if a device augments the features that it keeps; else 0
  std::size_t stored_bytes_;                ///< of an example's features in the set
};

/// A thread that prepares the next few batches while one is in use. Its buffers are reused.
class Prefetcher {
 public:
  /// Fills a batch, in the thread; returns false at the end.
  using Prepare = std::function<bool(PreparedBatch&)>;

  /// \param buffers one for each batch that is prepared or in use at a time; at least 2
  Prefetcher(std::vector<PreparedBatch> buffers, Prepare prepare);
  /// Ends the thread. `prepare` must return soon.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch, valid until the next call; null at the end. Rethrows an exception of `prepare` in place of its
  /// batch.
  const Batch* next();
  double wait_seconds() const { return wait_seconds_; }

 private:
  void run();

  std::vector<PreparedBatch> buffers_;
  Prepare prepare_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Batch i is in buffer i mod (number of buffers). Batches taken_ … prepared_ − 1 are ready for the caller of `next`,
  // who may still use the previous one. Buffers of batches before kept_ may be overwritten.
  std::size_t prepared_ = 0, taken_ = 0, kept_ = 0;
  bool stopped_ = false, ended_ = false;
  std::exception_ptr error_;
  double wait_seconds_ = 0;
  Threads thread_{"preparing batches ahead"};
};

/// Fetches the examples of a rank's micro-batches, in the order of its schedule.
class Feed {
 public:
  virtual ~Feed() = default;
  /// \param gathered overwritten; pointers are valid until the next call
  virtual void gather(const MicroBatch& batch, GatheredExamples& gathered) = 0;
  /// The next `gather` will be for the first micro-batch of this step.
  virtual void seek(const DataCursor& cursor) = 0;
  /// Makes a `gather` that waits in another thread throw.
  virtual void interrupt() {}
};

/// Adds to a micro-batch's examples those that are mixed into them and lie elsewhere in the step.
/// \param partner(place) the place of the example that is mixed in \param example(place) the one at a place of the step
template <typename Partner, typename Example>
void gather_with_partners(const MicroBatch& batch, const Partner& partner, const Example& example,
                          GatheredExamples& gathered) {
  gathered.partners.clear();
  for (std::int64_t place = batch.places.first; place < batch.places.last; ++place) {
    const std::int64_t other = partner(place);
    const bool own = other >= batch.places.first && other < batch.places.last;
    gathered.partners.push_back(own ? static_cast<std::size_t>(other - batch.places.first) : gathered.examples.size());
    if (!own) gathered.examples.push_back(example(other));
  }
}

/// A rank's training batches. In a prefetching thread, if there is one, the Schedule says which examples are next, the
/// Feed fetches them, and the BatchWriter makes a batch of them.
class TrainSource final : public BatchSource {
 public:
  /// \param options only `lane` and `lanes` (which steps this source yields) and the memory of batches are used
  TrainSource(const Schedule& schedule, std::unique_ptr<Feed> feed, const BatchWriter& writer,
              const SourceOptions& options);
  ~TrainSource() override;

  Batch next() override;
  std::int64_t steps_per_epoch() const override { return schedule_.steps_per_epoch(); }
  std::int64_t examples_per_epoch() const override { return schedule_.examples(); }
  void seek(const DataCursor& cursor) override;
  double wait_seconds() const override;

 private:
  void start();
  void stop();
  bool prepare(PreparedBatch& prepared);
  void skip_steps(int count);

  Schedule schedule_;  ///< used by the thread while there is one
  std::unique_ptr<Feed> feed_;
  BatchWriter writer_;
  int lane_, lanes_;
  Allocator* memory_;  ///< of batches
  GatheredExamples gathered_;
  DataCursor start_;
  double wait_seconds_ = 0;  ///< of earlier threads, before `seek`
  bool ahead_;
  std::optional<Prefetcher> prefetcher_;
  std::optional<PreparedBatch> prepared_;  ///< where no thread prepares batches ahead
};

/// Converts rows in memory into batches; kept from one pass to the next, so that a pass allocates nothing.
struct RowConversion {
  RowConversion(const BatchWriter& writer_, Index largest_, Allocator& memory)
      : writer(writer_), largest(largest_), buffer(writer.make(largest, memory)) {}

  BatchWriter writer;
  Index largest;  ///< examples of a batch
  PreparedBatch buffer;
  GatheredExamples gathered = {};
};

/// Batches of part of a split whose rows are in memory, in the set's order, made when they are asked for, without a
/// thread. \param rows, positions must outlive the source
std::unique_ptr<EvaluationSource> convert_rows(Range part, Index batch_size, const RowBlock& rows,
                                               const FileRows& positions, std::shared_ptr<RowConversion> conversion);

/// The same of float32 features that need no conversion: batches point at the rows where they lie, so that each ends
/// where a run of rows ends. They have no `examples`.
std::unique_ptr<EvaluationSource> rows_in_place(Range part, Index batch_size, const RowBlock& rows,
                                                const FileRows& positions, const GroupSchema& group,
                                                const BatchStyle& style);

/// Reads the examples of a split, in ascending order of positions.
class SequentialReader {
 public:
  virtual ~SequentialReader() = default;
  /// \param examples overwritten; their pointers are valid until the next call
  virtual void read(Range positions, std::vector<RawExample>& examples) = 0;
};

/// From memory.
std::unique_ptr<SequentialReader> read_resident(RowBlock rows, const FileRows& positions);
/// From the file, block by block.
std::unique_ptr<SequentialReader> read_streaming(const hdf5::File& file, const GroupSchema& group,
                                                 const FileRows& positions);

/// Batches of a rank's part of a split, in the set's order.
class SequentialSource final : public EvaluationSource {
 public:
  /// \param ahead whether a thread prepares them while earlier ones are in use
  SequentialSource(Range part, Index batch_size, std::unique_ptr<SequentialReader> reader, const BatchWriter& writer,
                   Allocator& memory, bool ahead);

  std::optional<Batch> next() override;
  std::int64_t first() const override { return part_.first; }
  std::int64_t last() const override { return part_.last; }

 private:
  bool prepare(PreparedBatch& prepared);

  Range part_;
  Index batch_size_;
  std::int64_t next_;
  std::unique_ptr<SequentialReader> reader_;
  BatchWriter writer_;
  GatheredExamples gathered_;
  PreparedBatch prepared_;  ///< if there is no prefetcher
  std::optional<Prefetcher> prefetcher_;
};

}  // namespace unisono::data
