#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "unisono/kernels/in_place.hpp"
#include "unisono/models/model.hpp"
#include "unisono/tensor/allocator.hpp"

// Models that are updated in place: plain SGD (or Adagrad) on single examples, applied directly to θ, as Hogwild does.
// An example of sparse rows, ratings or text touches few rows of θ; strategies merge, lock or send just those.
namespace unisono::models {

/// Spin locks over the rows of θ, for comparison with lock-free training: one lock for all rows, or `stripes` locks, to
/// which the rows are assigned round-robin.
class RowLocks {
 public:
  /// \param stripes number of locks; 1: one for all rows
  explicit RowLocks(int stripes);

  /// Holds the locks of some rows until it is destroyed.
  class Guard {
   public:
    Guard(Guard&& other) noexcept : locks_(std::exchange(other.locks_, nullptr)), stripes_(other.stripes_) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard();

   private:
    friend class RowLocks;
    Guard(RowLocks& locks, std::span<const std::uint32_t> stripes) : locks_(&locks), stripes_(stripes) {}
    RowLocks* locks_;  ///< null: the locks were moved to another guard
    std::span<const std::uint32_t> stripes_;
  };

  /// A set of rows to lock. RowLocks::lock takes their locks in ascending order, which excludes deadlocks.
  class Set {
   public:
    void clear() { stripes_.clear(); }
    void add(const RowLocks& locks, std::size_t space, Index row) { stripes_.push_back(locks.stripe_of(space, row)); }

   private:
    friend class RowLocks;
    std::vector<std::uint32_t> stripes_;
  };

  /// Waits for the locks of some rows and takes them. \param rows must outlive the guard, unchanged
  [[nodiscard]] Guard lock(Set& rows);

 private:
  struct alignas(kAlignmentBytes) Lock {
    std::atomic<bool> taken{false};
  };
  std::uint32_t stripe_of(std::size_t space, Index row) const;
  void take(std::uint32_t stripe);

  std::uint32_t stripes_;
  std::unique_ptr<Lock[]> locks_;
};

/// A table in θ of which an example touches single rows, e.g. the vectors of words. Strategies send only rows that
/// changed.
struct RowSpace {
  std::string name;  ///< "users"
  Index offset = 0;  ///< where row 0 begins in θ
  Index stride = 0;  ///< floats from one row to the next, all of which belong to the row
  Index rows = 0;
};

/// The `count` rows first, first + step, ….
struct RowSeries {
  Index first = 0, step = 1, count = 0;
};

/// Counts for each row how often it was touched since `forget`. Threads may mark concurrently, without locks: of two
/// simultaneous marks one may be lost, but never both.
class TouchedRows {
 public:
  explicit TouchedRows(const std::vector<RowSpace>& spaces);
  void mark(std::size_t space, Index row);
  std::uint32_t count(std::size_t space, Index row) const { return marks_[space][static_cast<std::size_t>(row)]; }
  bool is_touched(std::size_t space, Index row) const { return count(space, row) != 0; }
  void forget(std::size_t space, Index row) { marks_[space][static_cast<std::size_t>(row)] = 0; }

 private:
  std::vector<std::vector<std::uint32_t>> marks_;
};

/// Measures how often threads update the same row at the same time. Each thread notes its current example and the rows
/// that the example touches, and checks whether another thread's current example touches them, too. This costs more
/// than most updates, so only a sample of the steps is metered.
class ConflictMeter {
 public:
  ConflictMeter(const std::vector<RowSpace>& spaces, int threads);
  /// Called when a thread goes on to its next example.
  void begin(int thread);
  /// Called for each row that a thread's current example touches.
  void touch(int thread, std::size_t space, Index row);

  std::int64_t touched() const;    ///< touched rows, over all threads and examples
  std::int64_t conflicts() const;  ///< touched rows that another thread's current example touched, too

 private:
  struct alignas(kAlignmentBytes) Thread {
    std::atomic<std::uint64_t> example{0};
    std::int64_t touched = 0, conflicts = 0;
  };
  std::vector<Thread> threads_;
  std::vector<std::vector<std::uint64_t>> last_;  ///< by space and row: which thread touched it last, in which example
};

/// Arguments of InPlace::update_in_place that are the same for all examples of a call.
struct InPlaceStep {
  double rate = 0;
  std::int64_t examples_before = 0;  ///< about how many examples this copy of θ was trained on before this call
  MutableView parameters;            ///< θ, which other threads may be updating
  RowLocks* locks = nullptr;         ///< locks that each example takes; null: no locking
  TouchedRows* touched = nullptr;    ///< marks the touched rows; null: not wanted
  ConflictMeter* meter = nullptr;    ///< measures conflicts; null: not wanted
  int thread = 0;                    ///< this thread's number, for the meter
  bool alone = true;                 ///< whether no other thread updates θ meanwhile

  /// Whether examples (or mini-batches) must be handled one by one, not in one kernel call.
  bool one_by_one() const { return locks != nullptr || meter != nullptr; }
};

/// A thread's workspace for in-place updates; each model derives its own.
class Scratch {
 public:
  virtual ~Scratch() = default;
};

/// Shards of the two tables of a bipartite model; a row has RowSpace::stride floats.
struct TableParts {
  float* rows = nullptr;     ///< rows of row_spaces()[0], e.g. of users
  float* columns = nullptr;  ///< rows of row_spaces()[1], e.g. of items
};

/// Implemented by a model whose examples each touch one row in each of two tables (users and items). A rank that holds
/// only shards of the two tables can then train on the examples that touch no other rows.
class Bipartite {
 public:
  virtual ~Bipartite() = default;
  /// Trains on the entries, as InPlace::update_in_place; the entries' rows and columns are numbers within the shards.
  virtual void update_part(data::SparseEntries entries, double rate, const TableParts& parts,
                           kernels::LossSums& sums) const = 0;
  /// Adds the entries' losses to `sums`.
  virtual void evaluate_part(data::SparseEntries entries, const TableParts& parts, kernels::LossSums& sums) const = 0;
  /// Initial values of the rows of a series, the same as Model::initialise gives them. \param space 0: the rows, 1: the
  /// columns \param rows overwritten, a stride each
  virtual void initialise_rows(std::uint64_t seed, std::size_t space, RowSeries series, float* rows) const = 0;
};

/// A part of the features of a model, and what else its thread is in charge of.
struct FeatureShare {
  kernels::FeaturePart part;
  bool adds_bias = false;  ///< whether the thread adds the bias to its margins
  /// Whether the thread makes the steps of what belongs to no feature: of the bias, and of counts.
  bool keeps_rest = false;
};

/// Implemented by a model whose margin is a sum over features, with one step of SGD for each mini-batch: threads and
/// ranks may then each hold the weights of a part of the features. Calls for different parts may run at the same time.
class ByFeatures {
 public:
  virtual ~ByFeatures() = default;
  /// Examples of the largest mini-batch.
  virtual Index mini_batch() const = 0;
  /// Bounds of parts that about equally many values belong to, by a sample of the batch's set: [parts + 1], the same on
  /// all ranks.
  virtual std::vector<Index> divide_features(const data::Batch& batch, int parts) const = 0;
  /// For each row of the batch's set, the position of its first value of feature `feature` or a later one; empty for
  /// tables.
  virtual std::vector<std::uint64_t> first_values(const data::Batch& batch, Index feature) const = 0;
  /// The part's shares of the examples' margins. \param range at most mini_batch() examples \param margins [count],
  /// overwritten
  virtual void part_margins(const data::Batch& batch, data::ExampleRange range, const FeatureShare& share,
                            MutableView parameters, Scratch& scratch, MutableView margins) const = 0;
  /// The step of a mini-batch's examples on the part. \param margins the examples' whole margins \param sums not null:
  /// the examples' losses are added
  virtual void step_on_part(const data::Batch& batch, data::ExampleRange range, const FeatureShare& share,
                            const InPlaceStep& step, View margins, Scratch& scratch, kernels::LossSums* sums) const = 0;
};

/// How a row is merged that several ranks changed: by adding their changes, which suits models where an example touches
/// few of many rows, or by the mean, where it touches a good part of them.
enum class RowMerging { sum, mean };

/// Implemented by a model whose examples touch few parameters: each example is an SGD step of its own, applied directly
/// to θ, by any number of threads. The model has its own update rule, and needs neither g nor an optimizer.
class InPlace {
 public:
  virtual ~InPlace() = default;

  /// A workspace for a thread.
  virtual std::unique_ptr<Scratch> make_scratch() const = 0;
  /// Trains on examples [range) of a batch's set (for a table: of the batch), in their order, and adds their losses,
  /// each computed before its own update, to `sums`. Never collective. Changes only θ, `scratch`, `sums` and what
  /// `step` points to, so threads may call it concurrently.
  virtual void update_in_place(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step,
                               Scratch& scratch, kernels::LossSums& sums) const = 0;
  /// Marks the rows that `update_in_place` would touch, and changes nothing.
  virtual void mark_rows(const data::Batch& batch, data::ExampleRange range, Scratch& scratch,
                         TouchedRows& touched) const = 0;
  /// How rows that several ranks changed are merged if the config does not say.
  virtual RowMerging usual_merge() const { return RowMerging::sum; }
  /// Whether an update that another thread writes over spoils more than itself: what is kept of all updates no longer
  /// fits the parameters.
  virtual bool needs_every_update() const { return false; }
  /// The tables of rows that `update_in_place` touches: all of θ except a few floats that belong to no row.
  virtual std::vector<RowSpace> row_spaces() const = 0;
  /// The model's Bipartite interface; null if an example may touch more than one row in each of two tables.
  virtual const Bipartite* bipartite() const { return nullptr; }
  /// The model's ByFeatures interface; null if its features cannot be divided.
  virtual const ByFeatures* by_features() const { return nullptr; }
};

}  // namespace unisono::models
