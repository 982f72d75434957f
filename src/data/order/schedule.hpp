#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "unisono/base/random.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/data/dataset.hpp"

namespace unisono::data {

/// A random permutation of 0 … n−1 that is evaluated place by place, each in constant time and memory: ranks that need
/// a slice of an epoch's order compute just that.
///   A Feistel network of eight rounds on pairs (l, r) of [0, a)², a = ⌈√n⌉: (l, r) → (r, l + F(r) mod a). Where it
///   leads out of [0, n) it is applied again, until it does not: still a bijection of [0, n).
///   Black & Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002.
class KeyedPermutation {
 public:
  KeyedPermutation() = default;
  KeyedPermutation(std::uint64_t n, RandomStream random);

  /// The number at this place of the permutation. \pre place < n
  std::uint64_t operator()(std::uint64_t place) const;
  std::uint64_t size() const { return n_; }

 private:
  static constexpr int kRounds = 8;
  std::uint64_t n_ = 0, side_ = 1;
  std::array<std::uint64_t, kRounds> keys_{};
};

/// [first, last) of the numbers 0 … n−1, or of whatever they count.
using Range = ExampleRange;

/// Part i of n things cut into `parts`: [i·n/parts, (i+1)·n/parts), as equal as whole numbers allow.
inline Range part_of(std::int64_t n, std::int64_t i, std::int64_t parts) {
  // n·i may exceed 64 bits: with n = q·parts + r it is q·i + r·i/parts.
  const std::int64_t whole = n / parts, rest = n % parts;
  return {whole * i + rest * i / parts, whole * (i + 1) + rest * (i + 1) / parts};
}

/// ⌈a / b⌉, of numbers that are not negative.
inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A rank's slice of a micro-batch, as places in an epoch's order of examples.
struct MicroBatch {
  std::int64_t epoch = 0, step = 0;
  Range step_places;               ///< places of the order that this step takes
  Range places;                    ///< this rank's slice of this micro-batch, counted from step_places.first
  std::vector<Range> rank_places;  ///< its slices of all micro-batches of the step, likewise
  Index micro_batch_size = 0, global_size = 0, rank_step_size = 0;
  Index number = 0, count = 1;  ///< of the step's micro-batches
  Index own = 1;                ///< how many of them this rank has, or 1 where it has none
  bool whole = false;           ///< no other rank has examples of this micro-batch
  bool first_of_step = true, last_of_step = true, last_of_epoch = false;  ///< of this rank's micro-batches
};

/// With which place of its step a place is mixed: with another one of its group, which is turned by a number of places
/// that is a function of (seed, epoch, step, group). So each place of a group is the partner of one; the only place of
/// a group is its own partner. \param group consecutive places of the step
std::int64_t partner_of(std::int64_t place, Range group, const MicroBatch& batch, std::uint64_t seed);

/// The members of a rank's batch that say which micro-batch it is.
Batch header_of(const MicroBatch& micro);

/// Says which places of an epoch's order a rank takes, micro-batch after micro-batch.
///   global: all ranks have one order of n examples. Step s takes the places [s·B, (s+1)·B), the last step what is
///           left, which may instead be left out (drop_last), or be joined to the step before (least). Ranks and
///           micro-batches share them as MicroBatchSharing says, each cut by part_of. A step that has fewer examples
///           than `micro_batches` has fewer of these. A rank without any has an empty one.
///   fixed:  rank r has an order of its own, of its part of the n examples, and takes its part of B at each step, cut
///           into micro-batches. All ranks make the steps that the slowest needs, and as many micro-batches in each; a
///           rank that is through has none in the last ones.
class Schedule {
 public:
  /// \throws ConfigError where fixed parts of the batch would be empty, or a micro-batch would have too few examples
  Schedule(std::int64_t examples, const SourceOptions& options, bool fixed);

  std::int64_t steps_per_epoch() const { return steps_; }
  std::int64_t examples() const { return examples_; }
  /// The examples that this rank's order permutes: its fixed part, or all of them for a global order.
  Range share() const { return share_; }
  /// How many places of its order a step takes, but the last one may take more or fewer.
  std::int64_t order_batch() const { return order_batch_; }
  /// In how many steps of an epoch this rank's order has examples, and how many in the last of them.
  std::int64_t order_steps() const;
  std::int64_t last_batch() const { return step_places(options_.rank, order_steps() - 1).size(); }
  /// The most examples that a micro-batch of this rank can have.
  Index largest_slice() const;

  MicroBatch current() const;
  void advance();
  /// To the first micro-batch of a step.
  void seek(const DataCursor& cursor);

 private:
  std::int64_t batch_of(int rank) const;                 ///< places of that rank's order in a step
  std::int64_t order_of(int rank) const;                 ///< examples in that rank's order
  Range step_places(int rank, std::int64_t step) const;  ///< of that rank's order
  std::int64_t steps_of(int rank) const;                 ///< with examples of that rank's order, without a joined rest
  std::int64_t count_steps() const;
  void join_last_steps();
  void require_enough() const;
  bool has_enough(int rank, std::int64_t step) const;
  bool is_shared(MicroBatchSharing sharing) const { return !fixed_ && options_.sharing == sharing; }
  Index micro_batches(int rank, std::int64_t step) const;
  Range own_numbers() const;
  Range places_of(int rank, std::int64_t step, Index number) const;
  Range places_of(int rank, std::int64_t step, Index number, Index count) const;
  std::int64_t count_full_steps() const;
  Index size_on_all_ranks(Index number, Index count) const;

  std::int64_t examples_;
  SourceOptions options_;
  bool fixed_;
  Range share_;
  std::int64_t order_batch_ = 0, steps_ = 0;
  std::int64_t full_steps_ = 0;  ///< with fixed parts: the first steps of an epoch, of which all ranks have their share
  /// Of each rank (without orders of their own: the same for all): the last whole step of its order takes the rest,
  /// too.
  std::vector<bool> joins_;
  std::int64_t epoch_ = 0, step_ = 0;
  Index micro_ = 0;  ///< number of this rank's current micro-batch in the step
};

/// Maps the examples of a split to rows of a group in the file, ascending: position 0 … size−1 → row.
class FileRows {
 public:
  /// Consecutive rows [first_row, first_row + rows), at the positions from first_position on.
  struct Run {
    std::int64_t first_row = 0, rows = 0, first_position = 0;
  };

  FileRows() = default;
  /// All rows of a group.
  explicit FileRows(std::int64_t rows) { append(0, rows); }

  /// Appends rows. \pre they come after all rows so far
  void append(std::int64_t first_row, std::int64_t rows);
  /// Called after the last append: makes `row` fast where runs are short.
  void index();

  std::int64_t size() const { return size_; }
  std::int64_t row(std::int64_t position) const;
  /// The rows of these positions, as runs.
  std::vector<Run> runs(Range positions) const;
  /// The smallest range of rows that holds these positions.
  Range span(Range positions) const;

 private:
  const Run& run_of(std::int64_t position) const;
  static constexpr std::int64_t kIndexed = 16;  ///< positions of an entry of the index

  std::vector<Run> runs_;
  std::vector<std::uint32_t> run_at_;  ///< the run of every kIndexed-th position; empty: there is no index
  std::int64_t size_ = 0;
};

/// One group's rows, divided into training and validation examples.
struct ValidationSplit {
  FileRows train, validation;
};

/// Splits at random in units of `unit_rows` consecutive rows: about `fraction` of the units, at least one and not all,
/// are for validation. Rows after the last whole unit are for training. A function of its arguments alone.
/// \pre there are two units
ValidationSplit split_validation(std::int64_t rows, std::int64_t unit_rows, double fraction, std::uint64_t seed);

/// Splits at random row by row, so that about the same fraction of each class is for validation: ⌊fraction · its rows⌋,
/// and one more for the classes with the largest remainders (Hamilton's method). A function of its arguments alone.
/// \param strata the class of each row, at least 0 \pre there are two rows
ValidationSplit split_stratified(std::span<const std::int32_t> strata, double fraction, std::uint64_t seed);

/// How many units of n are for validation.
std::int64_t validation_units(std::int64_t units, double fraction);

}  // namespace unisono::data
