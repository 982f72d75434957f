#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/models/model.hpp"
#include "unisono/models/row_locks.hpp"

namespace unisono::models {

/// Rows of θ that examples touch one by one, e.g. the vectors of words: averaging sends only those that changed.
struct RowSpace {
  std::string name;  ///< "users"
  Index offset = 0;  ///< of row 0 in θ
  Index stride = 0;  ///< floats from one row to the next, all of them the row's
  Index rows = 0;
};

/// Rows first, first + step, …: `count` of them.
struct RowSeries {
  Index first = 0, step = 1, count = 0;
};

/// How often each row was touched since it was forgotten. Threads mark at the same time; of two marks at once one may
/// be lost, but never both.
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

/// Measures how often threads update the same row at the same time: each notes the example that it works on and the
/// rows that this touches, and looks who else is on them. Costs more than most examples do, so it is for samples.
class ConflictMeter {
 public:
  ConflictMeter(const std::vector<RowSpace>& spaces, int threads);
  /// The thread goes on to its next example.
  void begin(int thread);
  void touch(int thread, std::size_t space, Index row);

  std::int64_t touched() const;    ///< rows, over all threads and examples
  std::int64_t conflicts() const;  ///< of these, rows that another thread's current example touched, too

 private:
  struct alignas(kAlignmentBytes) Thread {
    std::atomic<std::uint64_t> example{0};
    std::int64_t touched = 0, conflicts = 0;
  };
  std::vector<Thread> threads_;
  std::vector<std::vector<std::uint64_t>> last_;  ///< by space and row: who touched it last, in which example
};

/// What holds of all examples of a piece that is updated in place.
struct InPlaceStep {
  double rate = 0;
  std::int64_t examples_before = 0;  ///< that this rank's copy of θ was trained on before this piece, about
  MutableView parameters;            ///< θ, which other threads may be updating
  RowLocks* locks = nullptr;         ///< null: none are taken
  TouchedRows* touched = nullptr;    ///< null: nobody wants to know
  ConflictMeter* meter = nullptr;    ///< null: nobody wants to know
  int thread = 0;                    ///< for the meter

  /// Whether examples must be made one by one.
  bool one_by_one() const { return locks != nullptr || meter != nullptr; }
};

/// What one thread needs beside the model while it updates in place.
class Scratch {
 public:
  virtual ~Scratch() = default;
};

/// A part of each of a model's two tables of rows, as many floats a row as RowSpace::stride.
struct TableParts {
  float* rows = nullptr;     ///< of row_spaces()[0], e.g. of users
  float* columns = nullptr;  ///< of row_spaces()[1], e.g. of items
};

/// What a model offers whose examples each touch one row of either of two tables: parts of the tables can be trained
/// apart, by ranks that hold no more.
class Bipartite {
 public:
  virtual ~Bipartite() = default;
  /// As InPlace::update_in_place, on entries that are numbered from the first rows of the parts on.
  virtual void update_part(data::SparseEntries entries, double rate, const TableParts& parts,
                           kernels::LossSums& sums) const = 0;
  virtual void evaluate_part(data::SparseEntries entries, const TableParts& parts, kernels::LossSums& sums) const = 0;
  /// Initial values of rows first, first + step, …, `count` of them, as Model::initialise gives them.
  virtual void initialise_rows(std::uint64_t seed, std::size_t space, RowSeries series, float* rows) const = 0;
};

/// What becomes of a row that several ranks changed: the sum of their changes, where an example touches few of many
/// rows, or the mean, where it touches a good part of them.
enum class RowMerging { sum, mean };

/// What a model offers whose examples touch few parameters: each example is a step of its own, made on θ itself, by any
/// number of threads. Such a model has its own update rule, and needs neither g nor an optimizer.
class InPlace {
 public:
  virtual ~InPlace() = default;

  virtual std::unique_ptr<Scratch> make_scratch() const = 0;
  /// Trains on examples [range) of a batch's set (of a table: of the batch), in their order. The losses, each from
  /// before its own update, are added to `sums`. Never collective; const but for θ and scratch.
  virtual void update_in_place(const data::Batch& batch, data::ExampleRange range, const InPlaceStep& step,
                               Scratch& scratch, kernels::LossSums& sums) const = 0;
  /// Marks the rows that `update_in_place` would touch, and changes nothing.
  virtual void mark_rows(const data::Batch& batch, data::ExampleRange range, Scratch& scratch,
                         TouchedRows& touched) const = 0;
  /// How the rows that several ranks changed become one, where the config leaves it open.
  virtual RowMerging usual_merge() const { return RowMerging::sum; }
  /// All that `update_in_place` touches, but for some numbers that belong to no row.
  virtual std::vector<RowSpace> row_spaces() const = 0;
  /// Null: its examples touch more than a row of each of two tables.
  virtual const Bipartite* bipartite() const { return nullptr; }
};

}  // namespace unisono::models
