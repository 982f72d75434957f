#include "order/row_runs.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include "order/schedule.hpp"

namespace unisono::data {

void RowRuns::append(std::int64_t first_row, std::int64_t rows) {
  if (rows == 0) return;
  run_at_.clear();
  if (!runs_.empty() && runs_.back().first_row + runs_.back().rows == first_row) {
    runs_.back().rows += rows;
  } else {
    runs_.push_back({first_row, rows, size_});
  }
  size_ += rows;
}

void RowRuns::index() {
  constexpr std::int64_t kShort = 1024;  // rows of a run, on average
  run_at_.clear();
  if (runs_.size() < 2 || size_ > kShort * std::ssize(runs_)) return;
  std::uint32_t run = 0;
  for (std::int64_t position = 0; position < size_; position += kIndexed) {
    while (runs_[run].first_position + runs_[run].rows <= position) ++run;
    run_at_.push_back(run);
  }
}

const RowRuns::Run& RowRuns::run_of(std::int64_t position) const {
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

std::int64_t RowRuns::row(std::int64_t position) const {
  const Run& run = run_of(position);
  return run.first_row + (position - run.first_position);
}

std::vector<RowRuns::Run> RowRuns::runs(Range positions) const {
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

Range RowRuns::span(Range positions) const {
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
    RowRuns& part = order(static_cast<std::uint64_t>(unit)) < chosen ? split.validation : split.train;
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
