// Rows of a sparse matrix in memory: offsets, columns, values (where they are not all 1) and targets, one array after
// the other. For training they are shuffled once: training row i goes to place p(i), where p is a keyed permutation.
// Held-out rows take the last places, in the file's order.
#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "dense/schema.hpp"
#include "order/schedule.hpp"
#include "set/fold.hpp"
#include "sparse/schema.hpp"
#include "sparse/split.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

class RowsLoader final : public GroupLoader {
 public:
  RowsLoader(const SparseSchema& schema, const SparseGroup& group, const Arrangement& how)
      : group_(group),
        how_(how),
        width_(schema.columns),
        border_(how.fold != nullptr ? std::ssize(how.fold->train)
                                    : group.units - held_out_examples(group.units, how.validation_fraction)) {
    if (how.shuffle) {
      permuted_ = KeyedPermutation(static_cast<std::uint64_t>(border_),
                                   RandomStream(how.seed, Purpose::order, 0, kArrangementStream));
    }
  }

  std::size_t bytes() const override;
  void read(const hdf5::File& file, std::byte* base, const NodeMemory& memory) override;
  LoadedSplit split(bool held_out) const override;
  void scale(const std::vector<float>& factors, const NodeMemory& memory) override;

 private:
  /// Distinct from the streams of the epochs' orders.
  static constexpr std::uint32_t kArrangementStream = 0xFFFFFFFFU;

  std::int64_t place_of(std::int64_t row) const {
    if (!places_.empty()) return places_[static_cast<std::size_t>(row)];
    return permuted_.size() == 0 ? row : static_cast<std::int64_t>(permuted_(static_cast<std::uint64_t>(row)));
  }
  void place_rows(const hdf5::File& file);
  ValidationSplit choose_rows(const hdf5::File& file) const;
  void place_arrays(std::byte* base);
  void write_offsets(const std::vector<std::uint64_t>& file_offsets, Range part);
  void read_columns(const hdf5::File& file, Range part);
  void read_values(const hdf5::File& file, Range part);
  void read_answers(const hdf5::File& file, Range part);
  std::int32_t class_of(const hdf5::File& file, std::int32_t label, std::int64_t row) const;
  /// Calls put(to, from, count) for the pieces of entries [first, first + n) of the file that belong to one row.
  template <typename Put>
  void scatter(std::int64_t first, std::int64_t n, std::int64_t& row, Put put) const;
  std::size_t count() const { return static_cast<std::size_t>(group_.units); }
  bool has_values() const { return group_.has_data || how_.scaled; }

  SparseGroup group_;
  Arrangement how_;
  Index width_;
  std::int64_t border_;               ///< places from here on are held out
  KeyedPermutation permuted_;         ///< of the training rows; size 0: they keep their order
  std::vector<std::int64_t> places_;  ///< during `read`: place of each row; empty if none is held out
  std::vector<std::uint64_t> file_offsets_, own_offsets_;  ///< used during `read`
  std::uint64_t* offsets_ = nullptr;
  std::uint32_t* columns_ = nullptr;
  float* values_ = nullptr;   ///< null: all 1
  float* targets_ = nullptr;  ///< null: none
};

std::size_t RowsLoader::bytes() const {
  const auto values = static_cast<std::size_t>(group_.values);
  const bool targets = group_.has_labels || group_.has_targets;
  return aligned_bytes((count() + 1) * sizeof(std::uint64_t)) + aligned_bytes(values * sizeof(std::uint32_t)) +
         (has_values() ? aligned_bytes(values * sizeof(float)) : 0) +
         (targets ? aligned_bytes(count() * sizeof(float)) : 0);
}

/// Chooses the rows to hold out: the same fraction of each class, or regardless of classes.
ValidationSplit RowsLoader::choose_rows(const hdf5::File& file) const {
  if (how_.fold != nullptr) return {.train = runs_of(how_.fold->train), .validation = runs_of(how_.fold->validation)};
  if (how_.stratify && group_.has_labels) {
    const std::vector<std::int32_t> strata = read_strata(file, group_.path("labels"), group_.units);
    if (!strata.empty()) return split_stratified(strata, how_.validation_fraction, how_.split_seed);
  }
  const KeyedPermutation order(count(), RandomStream(how_.split_seed, Purpose::order, 0, kArrangementStream));
  ValidationSplit split;
  for (std::int64_t row = 0; row < group_.units; ++row) {
    const bool held_out = static_cast<std::int64_t>(order(static_cast<std::uint64_t>(row))) >= border_;
    (held_out ? split.validation : split.train).append(row, 1);
  }
  return split;
}

void RowsLoader::place_rows(const hdf5::File& file) {
  if (border_ == group_.units) return;
  const ValidationSplit split = choose_rows(file);
  assert(split.train.size() == border_);
  places_.resize(count());
  for (std::int64_t i = 0; i < border_; ++i) {
    const auto place = permuted_.size() == 0 ? i : static_cast<std::int64_t>(permuted_(static_cast<std::uint64_t>(i)));
    places_[static_cast<std::size_t>(split.train.row(i))] = place;
  }
  for (std::int64_t i = border_; i < group_.units; ++i) {
    places_[static_cast<std::size_t>(split.validation.row(i - border_))] = i;
  }
}

void RowsLoader::place_arrays(std::byte* base) {
  const auto values = static_cast<std::size_t>(group_.values);
  offsets_ = reinterpret_cast<std::uint64_t*>(base);
  base += aligned_bytes((count() + 1) * sizeof(std::uint64_t));
  columns_ = reinterpret_cast<std::uint32_t*>(base);
  base += aligned_bytes(values * sizeof(std::uint32_t));
  if (has_values()) {
    values_ = reinterpret_cast<float*>(base);
    base += aligned_bytes(values * sizeof(float));
  }
  if (group_.has_labels || group_.has_targets) targets_ = reinterpret_cast<float*>(base);
}

/// Every rank computes all offsets, and writes its part of them.
void RowsLoader::write_offsets(const std::vector<std::uint64_t>& file_offsets, Range part) {
  own_offsets_.assign(count() + 1, 0);
  for (std::size_t row = 0; row < count(); ++row) {
    const auto place = static_cast<std::size_t>(place_of(static_cast<std::int64_t>(row)));
    own_offsets_[place + 1] = file_offsets[row + 1] - file_offsets[row];
  }
  for (std::size_t i = 0; i < count(); ++i) own_offsets_[i + 1] += own_offsets_[i];
  const auto first = own_offsets_.begin() + part.first, last = own_offsets_.begin() + part.last;
  std::copy(first, part.last == group_.units ? own_offsets_.end() : last, offsets_ + part.first);
}

template <typename Put>
void RowsLoader::scatter(std::int64_t first, std::int64_t n, std::int64_t& row, Put put) const {
  for (std::int64_t at = first; at < first + n;) {
    while (static_cast<std::int64_t>(file_offsets_[static_cast<std::size_t>(row) + 1]) <= at) ++row;
    const auto begin = static_cast<std::int64_t>(file_offsets_[static_cast<std::size_t>(row)]);
    const auto end = std::min(static_cast<std::int64_t>(file_offsets_[static_cast<std::size_t>(row) + 1]), first + n);
    const auto to = static_cast<std::int64_t>(own_offsets_[static_cast<std::size_t>(place_of(row))]) + at - begin;
    put(to, at - first, end - at);
    at = end;
  }
}

Range values_of(const std::vector<std::uint64_t>& offsets, Range rows) {
  return {static_cast<std::int64_t>(offsets[static_cast<std::size_t>(rows.first)]),
          static_cast<std::int64_t>(offsets[static_cast<std::size_t>(rows.last)])};
}

void RowsLoader::read_columns(const hdf5::File& file, Range part) {
  std::int64_t row = part.first;
  const std::string dataset = group_.path("features/indices");
  visit_numbers(file, dataset, values_of(file_offsets_, part), width_,
                [&](std::int64_t first, std::span<const std::int64_t> values) {
                  scatter(first, static_cast<std::int64_t>(values.size()), row,
                          [&](std::int64_t to, std::int64_t from, std::int64_t n) {
                            for (std::int64_t i = 0; i < n; ++i) {
                              columns_[to + i] = static_cast<std::uint32_t>(values[static_cast<std::size_t>(from + i)]);
                            }
                          });
                });
  for (row = part.first; row < part.last; ++row) {
    const auto begin = own_offsets_[static_cast<std::size_t>(place_of(row))];
    const auto n = file_offsets_[static_cast<std::size_t>(row) + 1] - file_offsets_[static_cast<std::size_t>(row)];
    for (std::uint64_t i = begin + 1; i < begin + n; ++i) {
      if (columns_[i] > columns_[i - 1]) continue;
      throw DataError(fmt::format(
          "{}: /{}: row {} has column {} after column {}; the columns of a row must ascend without repetition",
          file.path(), dataset, row, columns_[i], columns_[i - 1]));
    }
  }
}

void RowsLoader::read_values(const hdf5::File& file, Range part) {
  if (values_ == nullptr) return;
  if (!group_.has_data) {
    const Range own = values_of(own_offsets_, part);
    return std::fill(values_ + own.first, values_ + own.last, 1.0F);
  }
  std::int64_t row = part.first;
  visit_floats(file, group_.path("features/data"), values_of(file_offsets_, part),
               [&](std::int64_t first, std::span<const float> values) {
                 scatter(first, static_cast<std::int64_t>(values.size()), row,
                         [&](std::int64_t to, std::int64_t from, std::int64_t n) {
                           std::copy_n(values.begin() + from, n, values_ + to);
                         });
               });
}

void RowsLoader::read_answers(const hdf5::File& file, Range part) {
  if (targets_ == nullptr) return;
  if (!group_.has_labels) {
    visit_floats(file, group_.path("targets"), part, [&](std::int64_t first, std::span<const float> values) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        targets_[place_of(first + static_cast<std::int64_t>(i))] = values[i];
      }
    });
    return;
  }
  std::vector<std::int32_t> labels(static_cast<std::size_t>(part.size()));
  read_labels(file, group_.path("labels"), part, labels.data());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (!group_.classes.empty()) labels[i] = class_of(file, labels[i], part.first + static_cast<std::int64_t>(i));
    targets_[place_of(part.first + static_cast<std::int64_t>(i))] = static_cast<float>(labels[i]);
  }
}

/// What the model calls a label.
std::int32_t RowsLoader::class_of(const hdf5::File& file, std::int32_t label, std::int64_t row) const {
  const auto i = static_cast<std::size_t>(label);
  if (i < group_.classes.size() && group_.classes[i] >= 0) return group_.classes[i];
  const std::string name = i < group_.class_names.size() ? "'" + group_.class_names[i] + "'" : std::to_string(label);
  throw DataError(
      fmt::format("{}: /{}: example {} is of class {}, which the model was not trained on; correct or leave out such "
                  "examples, or remove /{} to predict all of them",
                  file.path(), group_.path("labels"), row, name, group_.path("labels")));
}

void RowsLoader::read(const hdf5::File& file, std::byte* base, const NodeMemory& memory) {
  place_arrays(base);
  place_rows(file);
  const Range part = memory.part(group_.units);
  file_offsets_ = read_offsets(file, group_.path("features/indptr"), group_.units, group_.values);
  write_offsets(file_offsets_, part);
  read_columns(file, part);
  read_values(file, part);
  read_answers(file, part);
  file_offsets_ = own_offsets_ = {};
  places_ = {};
}

LoadedSplit RowsLoader::split(bool held_out) const {
  const auto values = static_cast<std::size_t>(group_.values);
  LoadedSplit split;
  split.set = LabelledRows{.rows = {.offsets = {offsets_, count() + 1},
                                    .columns = {columns_, values},
                                    .values = values_ == nullptr ? View{} : View{values_, values},
                                    .width = width_},
                           .targets = targets_ == nullptr ? View{} : View{targets_, count()}};
  const ExampleRange rows = held_out ? ExampleRange{border_, group_.units} : ExampleRange{0, border_};
  cut_evenly(rows, rows_at_once(rows.size()), split);
  if (!held_out) split.places = permuted_;
  return split;
}

void RowsLoader::scale(const std::vector<float>& factors, const NodeMemory& memory) {
  const Range own = memory.part(group_.values);
  for (std::int64_t i = own.first; i < own.last; ++i) values_[i] *= factors[columns_[i]];
}

}  // namespace

std::unique_ptr<GroupLoader> load_rows(const SparseSchema& schema, const SparseGroup& group, const Arrangement& how) {
  return std::make_unique<RowsLoader>(schema, group, how);
}

}  // namespace unisono::data
