#include "batch/rated_table.hpp"

#include <algorithm>
#include <numeric>

namespace unisono::strategies {

RowPortions::RowPortions(std::span<const double> work) {
  const double enough = std::accumulate(work.begin(), work.end(), 0.0) / static_cast<double>(kPortions);
  double portion = 0;
  for (std::size_t row = 0; row < work.size(); ++row) {
    portion += work[row];
    if (portion < enough && row + 1 < work.size()) continue;
    first_rows_.push_back(static_cast<Index>(row) + 1);
    work_.push_back(work_.back() + portion);
    portion = 0;
  }
}

/// A rank gets the portions that begin in its share of the work.
Numbers RowPortions::of_rank(int rank, int ranks) const {
  const auto begin_of = [&](int r) {
    if (r == ranks) return size();
    const double before = work_.back() * r / ranks;
    return static_cast<Index>(std::lower_bound(work_.begin(), work_.end() - 1, before) - work_.begin());
  };
  return {begin_of(rank), begin_of(rank + 1)};
}

Numbers RowPortions::rows_of_rank(int rank, int ranks) const {
  const Numbers portions = of_rank(rank, ranks);
  return {first_rows_[at(portions.first)], first_rows_[at(portions.last)]};
}

double RowPortions::work_of_rank(int rank, int ranks) const {
  const Numbers portions = of_rank(rank, ranks);
  return work_[at(portions.last)] - work_[at(portions.first)];
}

RatedRows::RatedRows(std::size_t space, Numbers rows, std::span<const std::int64_t> counts, Index others,
                     data::Dataset& data)
    : space_(space), rows_(rows) {
  for (Index row = rows.first; row < rows.last; ++row) {
    offsets_.push_back(offsets_.back() + static_cast<std::size_t>(counts[static_cast<std::size_t>(row)]));
  }
  others_.resize(offsets_.back());
  values_.resize(offsets_.back());
  // Sorted by the other table's row, then dealt out to the rows: each row's are then in that order.
  const std::vector<SparseEntry> ratings = own_ratings(data);
  std::vector<std::size_t> next(static_cast<std::size_t>(others) + 1);
  for (const SparseEntry& rating : ratings) ++next[other_of(rating) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::vector<std::size_t> order(ratings.size());
  for (std::size_t i = 0; i < ratings.size(); ++i) order[next[other_of(ratings[i])]++] = i;
  next.assign(offsets_.begin(), offsets_.end());
  for (const std::size_t i : order) {
    const std::size_t place = next[static_cast<std::size_t>(row_of(ratings[i]) - rows_.first)]++;
    others_[place] = other_of(ratings[i]);
    values_[place] = ratings[i].value;
  }
}

void RatedRows::add_up() {
  std::size_t kept = 0, first = 0;
  for (std::size_t row = 0; row + 1 < offsets_.size(); ++row) {
    const std::size_t begin = kept, last = offsets_[row + 1];
    for (std::size_t i = first; i < last; ++i) {
      if (kept > begin && others_[kept - 1] == others_[i]) {
        values_[kept - 1] += values_[i];
        continue;
      }
      others_[kept] = others_[i];
      values_[kept++] = values_[i];
    }
    first = last;
    offsets_[row + 1] = kept;
  }
  others_.resize(kept);
  values_.resize(kept);
}

bool RatedRows::has_positive() const {
  return std::ranges::any_of(values_, [](float value) { return value > 0; });
}

std::vector<SparseEntry> RatedRows::own_ratings(data::Dataset& data) const {
  constexpr Index kAtATime = Index{1} << 20;
  std::vector<SparseEntry> own;
  own.reserve(offsets_.back());
  const auto source = data.training_part(0, 1, kAtATime, {});
  while (const auto batch = source->next()) {
    const auto entries = std::get<data::SparseEntries>(*batch->set);
    for (const data::ExampleRange& range : batch->ranges) {
      for (const SparseEntry& one :
           entries.subspan(static_cast<std::size_t>(range.first), static_cast<std::size_t>(range.size()))) {
        if (row_of(one) >= rows_.first && row_of(one) < rows_.last) own.push_back(one);
      }
    }
  }
  return own;
}

models::RatedRow RatedRows::row(Index number) const {
  const auto i = static_cast<std::size_t>(number - rows_.first);
  const std::size_t first = offsets_[i], n = offsets_[i + 1] - first;
  return {.space = space_,
          .number = number,
          .others = std::span(others_).subspan(first, n),
          .values = View(values_).subspan(first, n)};
}

}  // namespace unisono::strategies
