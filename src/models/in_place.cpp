#include "unisono/models/in_place.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "in_place_model.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::models {
namespace {

constexpr int kExampleBits = 48;  // the rest names the thread, from 1

constexpr int kSpins = 64;  // before the thread sleeps: the owner may need its core

}  // namespace

TouchedRows::TouchedRows(const std::vector<RowSpace>& spaces) {
  for (const RowSpace& space : spaces) marks_.emplace_back(static_cast<std::size_t>(space.rows));
}

void TouchedRows::mark(std::size_t space, Index row) {
  const std::atomic_ref<std::uint32_t> mark(marks_[space][static_cast<std::size_t>(row)]);
  mark.store(mark.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

ConflictMeter::ConflictMeter(const std::vector<RowSpace>& spaces, int threads)
    : threads_(static_cast<std::size_t>(threads)) {
  for (const RowSpace& space : spaces) last_.emplace_back(static_cast<std::size_t>(space.rows));
}

void ConflictMeter::begin(int thread) {
  threads_[static_cast<std::size_t>(thread)].example.fetch_add(1, std::memory_order_relaxed);
}

void ConflictMeter::touch(int thread, std::size_t space, Index row) {
  Thread& own = threads_[static_cast<std::size_t>(thread)];
  const std::uint64_t mark =
      (static_cast<std::uint64_t>(thread) + 1) << kExampleBits | own.example.load(std::memory_order_relaxed);
  const std::uint64_t before = std::atomic_ref<std::uint64_t>(last_[space][static_cast<std::size_t>(row)])
                                   .exchange(mark, std::memory_order_relaxed);
  ++own.touched;
  const std::uint64_t other = before >> kExampleBits;
  if (other == 0 || other == static_cast<std::uint64_t>(thread) + 1) return;
  const std::uint64_t example = before & ((std::uint64_t{1} << kExampleBits) - 1);
  if (threads_[other - 1].example.load(std::memory_order_relaxed) == example) ++own.conflicts;
}

std::int64_t ConflictMeter::touched() const {
  std::int64_t touched = 0;
  for (const Thread& thread : threads_) touched += thread.touched;
  return touched;
}

std::int64_t ConflictMeter::conflicts() const {
  std::int64_t conflicts = 0;
  for (const Thread& thread : threads_) conflicts += thread.conflicts;
  return conflicts;
}

void InPlaceModel::require_gradient() const {
  throw ConfigError(
      fmt::format("model.kind = \"{}\" is updated in place and cannot compute the gradient of a batch, which this "
                  "strategy needs",
                  kind_));
}

void InPlaceModel::predict(const data::Batch&, ModelState, MutableView) {
  throw ConfigError(
      fmt::format("model.kind = \"{}\" makes no predictions for examples; 'unisono export' writes its vectors, and "
                  "'unisono neighbors' searches them",
                  kind_));
}

std::vector<Metric> InPlaceModel::metrics(const kernels::LossSums& sums) const {
  return {metric_of("loss", ratio(sums.loss, sums.examples))};
}

RowLocks::RowLocks(int stripes)
    : stripes_(static_cast<std::uint32_t>(stripes)), locks_(std::make_unique<Lock[]>(stripes_)) {}

std::uint32_t RowLocks::stripe_of(std::size_t space, Index row) const {
  // Rows of equal numbers in different spaces, as a word's two vectors are, get different stripes.
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(row) + 0x9E3779B9U * space) % stripes_);
}

void RowLocks::take(std::uint32_t stripe) {
  std::atomic<bool>& taken = locks_[stripe].taken;
  for (Idle idle(kSpins); taken.exchange(true, std::memory_order_acquire);) idle.pause();
}

RowLocks::Guard RowLocks::lock(Set& rows) {
  auto& stripes = rows.stripes_;
  std::sort(stripes.begin(), stripes.end());
  stripes.erase(std::unique(stripes.begin(), stripes.end()), stripes.end());
  for (const std::uint32_t stripe : stripes) take(stripe);
  return {*this, stripes};
}

RowLocks::Guard::~Guard() {
  if (locks_ == nullptr) return;
  for (const std::uint32_t stripe : stripes_) locks_->locks_[stripe].taken.store(false, std::memory_order_release);
}

void draw_rows(std::uint64_t seed, std::uint32_t number, float bound, RowSeries series, Index width,
               const kernels::RowMatrix& matrix) {
  for (Index row = 0; row < series.count; ++row) {
    const auto number_of_row = static_cast<std::uint64_t>(series.first + row * series.step);
    RandomStream random(seed, Purpose::initial_weights, number_of_row, number);
    for (float* value = matrix.row(row); value < matrix.row(row) + width; ++value)
      *value = random.uniform(-bound, bound);
  }
}

void fill_column(float value, Index rows, Index column, const kernels::RowMatrix& matrix) {
  for (Index row = 0; row < rows; ++row) matrix.row(row)[column] = value;
}

Block row_block(std::string name, Index rows, Index width, Role role) {
  Block block;
  block.name = std::move(name);
  block.shape = width == 0 ? std::vector<Index>{rows} : std::vector<Index>{rows, width};
  block.role = role;
  return block;
}

void require_rule(const std::string& rule, const std::vector<std::string>& rules, const std::string& model) {
  if (std::find(rules.begin(), rules.end(), rule) != rules.end()) return;
  throw ConfigError(
      fmt::format("optimizer.kind = \"{}\": model.kind = \"{}\" is updated in place, which supports only {}", rule,
                  model, fmt::join(rules, " or ")));
}

data::SparseEntries entries_of(const data::Batch& batch, data::ExampleRange range) {
  return std::get<data::SparseEntries>(*batch.set)
      .subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.size()));
}

void mark_entries(std::span<const SparseEntry> entries, TouchedRows& touched) {
  for (const SparseEntry& entry : entries) {
    touched.mark(0, entry.row);
    touched.mark(1, entry.column);
  }
}

std::optional<RowLocks::Guard> enter_entry(const SparseEntry& entry, const InPlaceStep& step, RowLocks::Set& rows) {
  if (step.meter != nullptr) {
    step.meter->begin(step.thread);
    step.meter->touch(step.thread, 0, entry.row);
    step.meter->touch(step.thread, 1, entry.column);
  }
  if (step.locks == nullptr) return {};
  rows.clear();
  rows.add(*step.locks, 0, entry.row);
  rows.add(*step.locks, 1, entry.column);
  return step.locks->lock(rows);
}

void add(const kernels::InPlaceSums& from, kernels::LossSums& sums) {
  sums.loss += from.loss;
  sums.examples += from.examples;
  sums.correct += from.correct;
  sums.squared_error += from.squared_error;
  sums.absolute_error += from.absolute_error;
  sums.values += from.examples;
}

}  // namespace unisono::models
