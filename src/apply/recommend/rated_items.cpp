#include "recommend/rated_items.hpp"

#include <algorithm>
#include <numeric>

#include "unisono/session/evaluator.hpp"

namespace unisono::apply {
namespace {

/// Calls visit(entry) for each rating of a group that is not below `least`.
template <typename Visit>
void visit_ratings(data::Dataset& ratings, data::Split split, double least, Visit visit) {
  constexpr Index kBatch = 1 << 20;
  if (session::examples_of(ratings.info(), split) == 0) return;
  const auto source = ratings.evaluate(split, 0, 1, kBatch);
  while (const auto batch = source->next()) {
    const auto entries = std::get<data::SparseEntries>(*batch->set);
    for (const data::ExampleRange& range : batch->ranges) {
      for (auto i = range.first; i < range.last; ++i) {
        const SparseEntry& entry = entries[static_cast<std::size_t>(i)];
        if (static_cast<double>(entry.value) >= least) visit(entry);
      }
    }
  }
}

}  // namespace

RatedItems::RatedItems(data::Dataset& ratings, Index users, data::Split split, double least)
    : begins_(static_cast<std::size_t>(users) + 1) {
  visit_ratings(ratings, split, least, [&](const SparseEntry& entry) { ++begins_[entry.row + 1]; });
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  items_.resize(begins_.back());
  std::vector<std::size_t> next(begins_.begin(), begins_.end() - 1);
  visit_ratings(ratings, split, least, [&](const SparseEntry& entry) { items_[next[entry.row]++] = entry.column; });
  for (std::size_t user = 0; user + 1 < begins_.size(); ++user) {
    const auto at = [&](std::size_t place) { return items_.begin() + static_cast<std::ptrdiff_t>(place); };
    std::sort(at(begins_[user]), at(begins_[user + 1]));
  }
}

}  // namespace unisono::apply
