#include "recommend/recommender.hpp"

#include <algorithm>
#include <array>

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

}  // namespace unisono::apply
