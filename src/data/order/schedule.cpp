#include "order/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

/// ⌈√n⌉, at least 1.
std::uint64_t ceil_root(std::uint64_t n) {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(n)));
  while (root > 0 && (root - 1) * (root - 1) >= n) --root;
  while (root * root < n) ++root;
  return root > 0 ? root : 1;
}

/// Hashes both to 32 bits: the finaliser of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014).
std::uint64_t round_bits(std::uint64_t value, std::uint64_t key) {
  std::uint64_t z = (value ^ key) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z >> 32;
}

}  // namespace

Batch header_of(const MicroBatch& micro) {
  Batch header;
  header.micro_batch_size = micro.micro_batch_size;
  header.global_size = micro.global_size;
  header.rank_step_size = micro.rank_step_size;
  header.epoch = micro.epoch;
  header.epoch_examples_before = micro.step_places.first;
  header.micro_batch = micro.number;
  header.micro_batches = micro.count;
  header.rank_micro_batches = micro.own;
  header.whole = micro.whole;
  header.last_of_step = micro.last_of_step;
  header.last_of_epoch = micro.last_of_epoch;
  return header;
}

std::int64_t partner_of(std::int64_t place, Range group, const MicroBatch& batch, std::uint64_t seed) {
  const std::int64_t size = group.size();
  if (size == 1) return place;
  RandomStream random(seed, Purpose::mixing, static_cast<std::uint64_t>(batch.step),
                      static_cast<std::uint32_t>(batch.epoch));
  random.skip(2 * static_cast<std::uint64_t>(group.first));  // numbers of its own for each group
  const auto turn = 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(size - 1)));
  return group.first + (place - group.first + turn) % size;
}

Schedule::Schedule(std::int64_t examples, const SourceOptions& options, bool fixed)
    : examples_(examples), options_(options), fixed_(fixed) {
  if (fixed_ && options.batch_size < options.size) {
    throw ConfigError(
        fmt::format("train.batch_size = {} leaves some of the {} ranks without any examples, because of data.partition "
                    "= \"fixed\"; make it at least {}, or start fewer ranks",
                    options.batch_size, options.size, options.size));
  }
  share_ = fixed_ ? part_of(examples, options.rank, options.size) : Range{0, examples};
  order_batch_ = batch_of(options.rank);
  joins_.resize(static_cast<std::size_t>(options.size));
  steps_ = count_steps();
  full_steps_ = count_full_steps();
  if (options.least.together <= 1 && options.least.of_rank <= 1) return;
  if (options.join_last && !options.drop_last) join_last_steps();
  full_steps_ = count_full_steps();
  require_enough();
}

std::int64_t Schedule::batch_of(int rank) const {
  return fixed_ ? part_of(options_.batch_size, rank, options_.size).size() : options_.batch_size;
}

std::int64_t Schedule::order_of(int rank) const {
  return fixed_ ? part_of(examples_, rank, options_.size).size() : examples_;
}

std::int64_t Schedule::steps_of(int rank) const {
  const bool joins = joins_[static_cast<std::size_t>(rank)];
  return joins ? order_of(rank) / batch_of(rank) : divide_up(order_of(rank), batch_of(rank));
}

std::int64_t Schedule::count_steps() const {
  std::int64_t most = 0, full = std::numeric_limits<std::int64_t>::max();
  for (int rank = 0; rank < (fixed_ ? options_.size : 1); ++rank) {
    most = std::max(most, steps_of(rank));
    full = std::min(full, order_of(rank) / batch_of(rank));
  }
  if (!options_.drop_last) return most;
  if (full > 0) return full;
  throw ConfigError(
      fmt::format("train.last_batch = \"drop\" leaves no step of {}: a step has {}; lower train.batch_size, or keep "
                  "the last batch",
                  count_of(examples_, "training example"), count_of(options_.batch_size, "example")));
}

/// Without the steps that a rest has joined.
std::int64_t Schedule::count_full_steps() const {
  std::int64_t full = steps_;
  for (int rank = 0; fixed_ && rank < options_.size; ++rank) {
    full = std::min(full, order_of(rank) / batch_of(rank) - (joins_[static_cast<std::size_t>(rank)] ? 1 : 0));
  }
  return std::max<std::int64_t>(full, 0);
}

/// Joins the rests that are too small to the steps before. Those of ranks with orders of their own lie in different
/// steps.
void Schedule::join_last_steps() {
  std::vector<bool> joins(joins_.size());
  for (int rank = 0; rank < options_.size; ++rank) {
    const std::int64_t rest = order_of(rank) / batch_of(rank);
    joins[static_cast<std::size_t>(rank)] = rest > 0 && rest < steps_of(rank) && !has_enough(rank, rest);
  }
  const bool any = std::ranges::find(joins, true) != joins.end();
  joins_ = fixed_ ? joins : std::vector<bool>(joins.size(), any);
  steps_ = count_steps();
}

void Schedule::require_enough() const {
  std::int64_t shortest = steps_;  // steps before the last of the shortest order are like the first one
  for (int rank = 0; rank < options_.size; ++rank) shortest = std::min(shortest, steps_of(rank));
  std::int64_t wrong = -1;
  for (int rank = 0; rank < options_.size && wrong < 0; ++rank) {
    if (!has_enough(rank, 0)) wrong = 0;
    for (std::int64_t step = std::max<std::int64_t>(shortest - 1, 0); step < steps_ && wrong < 0; ++step) {
      if (!has_enough(rank, step)) wrong = step;
    }
  }
  if (wrong < 0 || (wrong > 0 && !options_.join_last)) return;  // small last steps were asked for
  const bool is_first = wrong == 0, is_whole = options_.batch_size <= examples_;
  const bool divided = options_.size > 1 || options_.micro_batches > 1;
  throw ConfigError(fmt::format(
      "model.layers: a batch_norm needs two or more values of each channel to normalise by, but {} has one of them{}; "
      "{}{}{}",
      is_first
          ? fmt::format("a step of {}", count_of(std::min<std::int64_t>(options_.batch_size, examples_), "example"))
          : "a last step of an epoch",
      divided ? " on some rank or in some micro-batch" : "",
      is_whole ? "raise train.batch_size" : "train on more examples",
      divided ? ", or take fewer ranks or micro-batches" : "", is_first ? "" : ", or set train.last_batch = \"drop\""));
}

/// Whether no micro-batch of a step of which a rank has examples has fewer than it needs.
bool Schedule::has_enough(int rank, std::int64_t step) const {
  const bool shares = fixed_ || is_shared(MicroBatchSharing::sliced);
  for (Index number = 0; number < micro_batches(rank, step); ++number) {
    const Index own = places_of(rank, step, number).size();
    if (own == 0) continue;
    Index together = shares ? 0 : own;
    for (int other = 0; shares && other < options_.size; ++other) together += places_of(other, step, number).size();
    if (own < options_.least.of_rank || together < options_.least.together) return false;
  }
  return true;
}

Range Schedule::step_places(int rank, std::int64_t step) const {
  const std::int64_t batch = batch_of(rank), places = order_of(rank), first = std::min(step * batch, places);
  if (!joins_[static_cast<std::size_t>(rank)]) return {first, std::min(first + batch, places)};
  const std::int64_t steps = steps_of(rank);
  if (step >= steps) return {places, places};
  return {first, step + 1 == steps ? places : first + batch};
}

/// The number of micro-batches of a step or, if each rank divides its own part, of that rank's part.
Index Schedule::micro_batches(int rank, std::int64_t step) const {
  std::int64_t largest = 0;
  if (fixed_ && step < full_steps_) {
    largest = divide_up(options_.batch_size, options_.size);
  } else {
    for (int other = 0; other < (fixed_ ? options_.size : 1); ++other) {
      largest = std::max(largest, step_places(other, step).size());
    }
  }
  if (is_shared(MicroBatchSharing::own)) largest = part_of(largest, rank, options_.size).size();
  return std::min<Index>(options_.micro_batches, largest);
}

std::int64_t Schedule::order_steps() const {
  std::int64_t steps = steps_;
  while (steps > 1 && step_places(options_.rank, steps - 1).size() == 0) --steps;
  return steps;
}

/// The micro-batches of the present step of which this rank has a part.
Range Schedule::own_numbers() const {
  const Index count = micro_batches(options_.rank, step_);
  if (!is_shared(MicroBatchSharing::whole)) return {0, count};
  const Index leaves = options_.leaves > 0 ? std::min(options_.leaves, count) : count;
  const Range own = part_of(leaves, options_.rank, options_.size);
  if (own.size() == 0) return {0, 0};
  return {part_of(count, own.first, leaves).first, part_of(count, own.last - 1, leaves).last};
}

/// A rank's places in a micro-batch, counted from the first place of its step.
Range Schedule::places_of(int rank, std::int64_t at, Index number) const {
  return places_of(rank, at, number, micro_batches(rank, at));
}

/// \param count of the step's micro-batches
Range Schedule::places_of(int rank, std::int64_t at, Index number, Index count) const {
  const auto part_in = [](Range of, std::int64_t i, std::int64_t parts) {
    const Range part = part_of(of.size(), i, std::max<std::int64_t>(parts, 1));
    return Range{of.first + part.first, of.first + part.last};
  };
  const Range step = {0, step_places(rank, at).size()};
  if (is_shared(MicroBatchSharing::own)) return part_in(part_in(step, rank, options_.size), number, count);
  const Range batch = part_in(step, number, count);
  return is_shared(MicroBatchSharing::sliced) ? part_in(batch, rank, options_.size) : batch;
}

/// The examples of one of the present step's micro-batches, on all ranks that share it; of the only one, those of the
/// step. In full steps with fixed parts
/// ranks have one of two numbers of examples, so that nothing grows with the number of ranks.
Index Schedule::size_on_all_ranks(Index number, Index count) const {
  const auto size_of = [&](std::int64_t examples) {
    return part_of(examples, number, std::max<Index>(count, 1)).size();
  };
  if (!fixed_) return size_of(step_places(options_.rank, step_).size());
  if (step_ < full_steps_) {
    const std::int64_t share = options_.batch_size / options_.size, larger = options_.batch_size % options_.size;
    return larger * size_of(share + 1) + (options_.size - larger) * size_of(share);
  }
  Index size = 0;
  for (int rank = 0; rank < options_.size; ++rank) size += size_of(step_places(rank, step_).size());
  return size;
}

MicroBatch Schedule::current() const {
  const Range own = own_numbers();
  MicroBatch batch;
  batch.epoch = epoch_;
  batch.step = step_;
  batch.number = own.first + micro_;
  batch.count = micro_batches(options_.rank, step_);
  batch.own = std::max<Index>(1, own.size());
  batch.whole = is_shared(MicroBatchSharing::whole);
  batch.step_places = step_places(options_.rank, step_);
  if (own.size() > 0) batch.places = places_of(options_.rank, step_, batch.number);
  for (Index number = own.first; number < own.last; ++number) {
    batch.rank_places.push_back(places_of(options_.rank, step_, number));
    batch.rank_step_size += batch.rank_places.back().size();
  }
  const bool shared = fixed_ || is_shared(MicroBatchSharing::sliced);
  batch.micro_batch_size = shared ? size_on_all_ranks(batch.number, batch.count) : batch.places.size();
  batch.global_size = size_on_all_ranks(0, 1);
  batch.first_of_step = micro_ == 0;
  batch.last_of_step = micro_ + 1 >= own.size();
  batch.last_of_epoch = batch.last_of_step && step_ + 1 == steps_;
  return batch;
}

void Schedule::advance() {
  if (++micro_ < own_numbers().size()) return;
  micro_ = 0;
  if (++step_ < steps_) return;
  step_ = 0;
  ++epoch_;
}

void Schedule::seek(const DataCursor& cursor) {
  epoch_ = cursor.epoch + cursor.step / steps_;
  step_ = cursor.step % steps_;
  micro_ = 0;
}

Index Schedule::largest_slice() const {
  const auto micro_of = [&](std::int64_t step) {
    return divide_up(step, std::min<Index>(options_.micro_batches, step));
  };
  const bool joins = joins_[static_cast<std::size_t>(options_.rank)];
  const std::int64_t most = joins ? std::max(order_batch_, last_batch()) : order_batch_;
  if (is_shared(MicroBatchSharing::sliced)) return divide_up(micro_of(most), options_.size);
  if (is_shared(MicroBatchSharing::own)) return micro_of(divide_up(most, options_.size));
  return micro_of(most);
}

KeyedPermutation::KeyedPermutation(std::uint64_t n, RandomStream random) : n_(n), side_(ceil_root(n)) {
  for (std::uint64_t& key : keys_) {
    const std::uint64_t high = random.bits();
    key = (high << 32) | random.bits();
  }
}

std::uint64_t KeyedPermutation::operator()(std::uint64_t place) const {
  assert(place < n_);
  do {
    std::uint64_t left = place / side_, right = place % side_;
    for (const std::uint64_t key : keys_) {
      std::uint64_t sum = left + ((round_bits(right, key) * side_) >> 32);  // F < side: no division
      if (sum >= side_) sum -= side_;
      left = right;
      right = sum;
    }
    place = left * side_ + right;
  } while (place >= n_);
  return place;
}

void FileRows::append(std::int64_t first_row, std::int64_t rows) {
  if (rows == 0) return;
  run_at_.clear();
  if (!runs_.empty() && runs_.back().first_row + runs_.back().rows == first_row) {
    runs_.back().rows += rows;
  } else {
    runs_.push_back({first_row, rows, size_});
  }
  size_ += rows;
}

void FileRows::index() {
  constexpr std::int64_t kShort = 1024;  // rows of a run, on average
  run_at_.clear();
  if (runs_.size() < 2 || size_ > kShort * std::ssize(runs_)) return;
  std::uint32_t run = 0;
  for (std::int64_t position = 0; position < size_; position += kIndexed) {
    while (runs_[run].first_position + runs_[run].rows <= position) ++run;
    run_at_.push_back(run);
  }
}

const FileRows::Run& FileRows::run_of(std::int64_t position) const {
  assert(position >= 0 && position < size_);
  if (!run_at_.empty()) {
    const Run* run = &runs_[run_at_[static_cast<std::size_t>(position / kIndexed)]];
    while (run->first_position + run->rows <= position) ++run;
    return *run;
  }
  const auto behind = std::upper_bound(runs_.begin(), runs_.end(), position,
                                       [](std::int64_t p, const Run& run) { return p < run.first_position; });
  return *(behind - 1);
}

std::int64_t FileRows::row(std::int64_t position) const {
  const Run& run = run_of(position);
  return run.first_row + (position - run.first_position);
}

std::vector<FileRows::Run> FileRows::runs(Range positions) const {
  std::vector<Run> found;
  for (std::int64_t p = positions.first; p < positions.last;) {
    const Run& run = run_of(p);
    const std::int64_t skipped = p - run.first_position;
    const std::int64_t rows = std::min(run.rows - skipped, positions.last - p);
    found.push_back({run.first_row + skipped, rows, p});
    p += rows;
  }
  return found;
}

Range FileRows::span(Range positions) const {
  if (positions.size() == 0) return {};
  return {row(positions.first), row(positions.last - 1) + 1};
}

std::int64_t validation_units(std::int64_t units, double fraction) {
  return std::clamp<std::int64_t>(std::llround(fraction * static_cast<double>(units)), 1, units - 1);
}

ValidationSplit split_validation(std::int64_t rows, std::int64_t unit_rows, double fraction, std::uint64_t seed) {
  const std::int64_t units = rows / unit_rows;
  assert(units >= 2);
  const KeyedPermutation order(static_cast<std::uint64_t>(units), RandomStream(seed, Purpose::split));
  const auto chosen = static_cast<std::uint64_t>(validation_units(units, fraction));
  ValidationSplit split;
  for (std::int64_t unit = 0; unit < units; ++unit) {
    FileRows& part = order(static_cast<std::uint64_t>(unit)) < chosen ? split.validation : split.train;
    part.append(unit * unit_rows, unit_rows);
  }
  split.train.append(units * unit_rows, rows - units * unit_rows);
  split.train.index();
  split.validation.index();
  return split;
}

namespace {

/// How many rows of each class are for validation; in total as many as without classes.
std::vector<std::int64_t> shares_of(const std::vector<std::int64_t>& sizes, std::int64_t rows, double fraction) {
  std::vector<std::int64_t> shares;
  std::vector<std::pair<double, std::size_t>> remainders;
  std::int64_t left = validation_units(rows, fraction);
  for (std::size_t stratum = 0; stratum < sizes.size(); ++stratum) {
    const double exact = fraction * static_cast<double>(sizes[stratum]);
    shares.push_back(static_cast<std::int64_t>(exact));
    left -= shares.back();
    remainders.emplace_back(static_cast<double>(shares.back()) - exact, stratum);
  }
  std::sort(remainders.begin(), remainders.end());  // the largest remainder first, then the lowest class
  for (const std::int64_t kept : {1, 0}) {          // one of each class stays for training, if that is possible
    for (const auto& [remainder, stratum] : remainders) {
      if (left <= 0 || shares[stratum] + kept >= sizes[stratum]) continue;
      ++shares[stratum];
      --left;
    }
  }
  return shares;
}

}  // namespace

ValidationSplit split_stratified(std::span<const std::int32_t> strata, double fraction, std::uint64_t seed) {
  const auto rows = static_cast<std::int64_t>(strata.size());
  const KeyedPermutation order(static_cast<std::uint64_t>(rows), RandomStream(seed, Purpose::split));
  std::vector<std::int64_t> by_place(strata.size());
  for (std::int64_t row = 0; row < rows; ++row) {
    by_place[static_cast<std::size_t>(order(static_cast<std::uint64_t>(row)))] = row;
  }
  std::vector<std::int64_t> sizes;
  for (const std::int32_t stratum : strata) {
    const auto i = static_cast<std::size_t>(stratum);
    if (i >= sizes.size()) sizes.resize(i + 1);
    ++sizes[i];
  }
  std::vector<std::int64_t> left = shares_of(sizes, rows, fraction);
  std::vector<bool> held_out(strata.size());
  for (const std::int64_t row : by_place) {
    const auto i = static_cast<std::size_t>(row);
    held_out[i] = left[static_cast<std::size_t>(strata[i])]-- > 0;
  }
  ValidationSplit split;
  for (std::int64_t row = 0; row < rows; ++row) {
    (held_out[static_cast<std::size_t>(row)] ? split.validation : split.train).append(row, 1);
  }
  split.train.index();
  split.validation.index();
  return split;
}

}  // namespace unisono::data
