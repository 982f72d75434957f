#include "tokenizer/byte_pairs.hpp"

#include <bit>
#include <limits>
#include <queue>
#include <tuple>

namespace unisono::data {
namespace {

constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}

constexpr std::int32_t kNoRank = std::numeric_limits<std::int32_t>::max();

std::int32_t rank_of(MergeTable::Merge merge) { return merge.rank < 0 ? kNoRank : merge.rank; }

/// For words of some letters: the ranks of all neighbours are looked through for each merge.
void merge_few(const MergeTable& merges, std::vector<std::int32_t>& tokens) {
  std::vector<MergeTable::Merge> next;  // of token i and the one after it
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) next.push_back(merges.find(tokens[i], tokens[i + 1]));
  while (!next.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < next.size(); ++i) {
      if (rank_of(next[i]) < rank_of(next[best])) best = i;
    }
    if (next[best].rank < 0) return;
    const auto at = static_cast<std::ptrdiff_t>(best);
    tokens[best] = next[best].token;
    tokens.erase(tokens.begin() + at + 1);
    next.erase(next.begin() + at);
    if (best < next.size()) next[best] = merges.find(tokens[best], tokens[best + 1]);
    if (best > 0) next[best - 1] = merges.find(tokens[best - 1], tokens[best]);
  }
}

/// For long runs of letters, such as those of a genome: n log n.
class ManyPairs {
 public:
  ManyPairs(const MergeTable& merges, std::vector<std::int32_t>& tokens) : merges_(merges), tokens_(tokens) {
    const auto n = tokens.size();
    for (std::size_t i = 0; i < n; ++i) {
      before_.push_back(i == 0 ? n : i - 1);
      after_.push_back(i + 1);
    }
    for (std::size_t i = 0; i + 1 < n; ++i) offer(i);
  }

  void merge() {
    while (!pairs_.empty()) {
      const auto [rank, at] = pairs_.top();
      pairs_.pop();
      if (tokens_[at] >= 0 && after_[at] < tokens_.size()) join(at, rank);
    }
    std::erase(tokens_, kGone);
  }

 private:
  static constexpr std::int32_t kGone = -1;

  void offer(std::size_t at) {
    const auto found = merges_.find(tokens_[at], tokens_[after_[at]]);
    if (found.rank >= 0) pairs_.emplace(found.rank, at);
  }

  /// Where the neighbours are others by now, their rank is another one, too.
  void join(std::size_t at, std::int32_t rank) {
    const std::size_t second = after_[at];
    const auto found = merges_.find(tokens_[at], tokens_[second]);
    if (found.rank != rank) return;
    tokens_[at] = found.token;
    tokens_[second] = kGone;
    after_[at] = after_[second];
    if (after_[at] < tokens_.size()) {
      before_[after_[at]] = at;
      offer(at);
    }
    if (before_[at] < tokens_.size()) offer(before_[at]);
  }

  using Pair = std::tuple<std::int32_t, std::size_t>;  // rank, place of the left token
  const MergeTable& merges_;
  std::vector<std::int32_t>& tokens_;
  std::vector<std::size_t> before_, after_;  ///< places of the neighbours; the number of tokens: there is none
  std::priority_queue<Pair, std::vector<Pair>, std::greater<>> pairs_;
};

}  // namespace

MergeTable::MergeTable(std::size_t merges)
    : entries_(std::bit_ceil(2 * merges + 2), Entry{.pair = kNone, .merge = {}}),
      shift_(64 - std::countr_zero(entries_.size())) {}

std::size_t MergeTable::place_of(std::uint64_t pair) const {
  auto place = static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15) >> shift_);
  while (entries_[place].pair != pair && entries_[place].pair != kNone) place = (place + 1) & (entries_.size() - 1);
  return place;
}

void MergeTable::add(std::int32_t left, std::int32_t right, Merge merge) {
  Entry& entry = entries_[place_of(pair_of(left, right))];
  if (entry.pair == kNone) entry = {.pair = pair_of(left, right), .merge = merge};
}

MergeTable::Merge MergeTable::find(std::int32_t left, std::int32_t right) const {
  return entries_[place_of(pair_of(left, right))].merge;
}

void merge_pairs(const MergeTable& merges, std::vector<std::int32_t>& tokens) {
  constexpr std::size_t kFew = 128;
  tokens.size() <= kFew ? merge_few(merges, tokens) : ManyPairs(merges, tokens).merge();
}

std::span<const std::int32_t> WordCache::find(std::string_view word) const {
  const auto found = places_.find(word);
  if (found == places_.end()) return {};
  return std::span(tokens_).subspan(found->second.first, found->second.count);
}

void WordCache::add(std::string_view word, std::span<const std::int32_t> tokens) {
  if (word.size() > kLongestWord) return;
  if (places_.size() == kMostWords) {
    places_.clear();
    tokens_.clear();
  }
  const Place place{.first = static_cast<std::uint32_t>(tokens_.size()),
                    .count = static_cast<std::uint32_t>(tokens.size())};
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  places_.emplace(word, place);
}

}  // namespace unisono::data
