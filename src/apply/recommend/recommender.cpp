#include "recommend/recommender.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "unisono/session/evaluation.hpp"

namespace unisono::apply {
namespace {

/// A user's ratings of all items, to be predicted.
class Question {
 public:
  explicit Question(Index items) : entries_(static_cast<std::size_t>(items)), ranges_{{{0, items}}} {
    for (std::size_t item = 0; item < entries_.size(); ++item) {
      entries_[item].column = static_cast<std::uint32_t>(item);
    }
    set_ = data::SparseEntries(entries_);
  }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  data::Batch of(std::int32_t user) {
    for (SparseEntry& entry : entries_) entry.row = static_cast<std::uint32_t>(user);
    return {.size = ranges_[0].last, .set = &set_, .ranges = ranges_};
  }

 private:
  std::vector<SparseEntry> entries_;
  std::array<data::ExampleRange, 1> ranges_;
  data::ExampleSet set_;
};

/// \param rated ascending
std::vector<Scored> best_of(View scores, std::span<const std::uint32_t> rated, std::size_t top) {
  Best best(top);
  for (std::size_t item = 0; item < scores.size(); ++item) {
    while (!rated.empty() && rated.front() < item) rated = rated.subspan(1);
    if (!rated.empty() && rated.front() == item) continue;
    best.offer({.row = static_cast<Index>(item), .score = static_cast<double>(scores[item])});
  }
  return best.take();
}

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

void Recommender::recommend(std::span<const std::int32_t> users, std::span<Recommendation> chosen) const {
  Question question(items_);
  std::vector<float> scores(static_cast<std::size_t>(items_));
  std::fill(chosen.begin(), chosen.end(), Recommendation{});
  for (std::size_t i = 0; i < users.size(); ++i) {
    model_.predict(question.of(users[i]), state_, scores);
    const auto best = best_of(scores, rated_.of(users[i]), top_);
    for (std::size_t k = 0; k < best.size(); ++k) {
      chosen[i * top_ + k] = {.item = static_cast<std::int32_t>(best[k].row),
                              .score = static_cast<float>(best[k].score)};
    }
  }
}

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
