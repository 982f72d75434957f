#include "words/windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::models {
namespace {

constexpr std::uint32_t kAlways = 0xFFFFFFFFU;

std::vector<std::uint32_t> keep_thresholds(std::span<const std::int64_t> counts, double t) {
  const double total =
      std::max(1.0, static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})));
  std::vector<std::uint32_t> keep;
  for (const std::int64_t count : counts) {
    const double frequency = std::max(1.0, static_cast<double>(count)) / total;
    const double probability = (std::sqrt(frequency / t) + 1) * t / frequency;
    keep.push_back(probability >= 1 ? kAlways : static_cast<std::uint32_t>(probability * 0x1p32));
  }
  return keep;
}

}  // namespace

WindowSampler::WindowSampler(const Word2vecSettings& settings, std::span<const std::int64_t> counts)
    : settings_(settings), hierarchical_(settings.output == WordOutput::hierarchical_softmax) {
  // CBOW's context is one mean, and a path of the tree is not drawn.
  const bool grouped = settings.architecture == WordArchitecture::skip_gram && !hierarchical_;
  group_ = static_cast<std::size_t>(grouped ? settings.negatives_shared_by : 2 * settings.window);
  if (settings.subsample > 0) keep_ = keep_thresholds(counts, settings.subsample);
  first_is_right_[0] = 1;
  if (hierarchical_) {
    tree_ = HuffmanTree(counts);
    if (tree_.longest() > static_cast<std::size_t>(kernels::kMaximumOutputs)) {
      throw ConfigError(
          fmt::format("model.output = \"hierarchical_softmax\": the longest path has {} nodes, more than {}: "
                      "use \"negative_sampling\", or import the text with a larger --minimum-count",
                      tree_.longest(), kernels::kMaximumOutputs));
    }
    return;
  }
  std::vector<double> weights;
  for (const std::int64_t count : counts) weights.push_back(std::pow(static_cast<double>(count), 0.75));
  negatives_ = AliasTable(weights);
  // No word is drawn twice, so there must be enough words.
  const auto words = static_cast<std::size_t>(
      std::count_if(counts.begin(), counts.end(), [](std::int64_t count) { return count > 0; }));
  outputs_ = std::min(static_cast<std::size_t>(settings.negatives) + 1, words);
}

void WindowSampler::subsample(std::span<const std::int32_t> sentence, FastRandom& random,
                              std::vector<std::int32_t>& kept) const {
  kept.clear();
  for (const std::int32_t word : sentence) {
    const std::uint32_t keep = keep_.empty() ? kAlways : keep_[static_cast<std::size_t>(word)];
    if (keep == kAlways || random.bits() < keep) kept.push_back(word);
  }
}

void WindowSampler::draw_negatives(std::int32_t word, FastRandom& random, Window& window) const {
  constexpr std::size_t kMostTries = 1000;  // a few frequent words may be all that is ever drawn
  std::array<std::int32_t, kernels::kMaximumOutputs> drawn;
  std::size_t count = 1;
  window.drawn[0] = word;
  for (std::size_t tries = 0; count < outputs_ && tries < kMostTries;) {
    // As many as are missing, together: so the CPU has their cache lines under way at the same time.
    const std::size_t missing = std::min(outputs_ - count, kMostTries - tries);
    for (std::size_t i = 0; i < missing; ++i) drawn[i] = negatives_.draw(random);
    for (std::size_t i = 0; i < missing; ++i) {
      bool twice = false;
      for (std::size_t k = 0; k < count; ++k) twice |= window.drawn[k] == drawn[i];
      window.drawn[count] = drawn[i];
      if (!twice) ++count;
    }
    tries += missing;
  }
  window.outputs = {window.drawn.data(), count};
  window.targets = {first_is_right_.data(), count};
}

void WindowSampler::draw_context(std::span<const std::int32_t> kept, std::size_t i, FastRandom& random,
                                 std::vector<std::int32_t>& context) const {
  const std::size_t reach = 1 + random.below(static_cast<std::uint32_t>(settings_.window));
  const std::size_t first = i > reach ? i - reach : 0, last = std::min(kept.size(), i + reach + 1);
  context.clear();
  for (std::size_t k = first; k < last; ++k) {
    if (k != i) context.push_back(kept[k]);
  }
}

void WindowSampler::draw_outputs(std::int32_t word, FastRandom& random, Window& window) const {
  if (hierarchical_) {
    window.outputs = tree_.nodes(word);
    window.targets = tree_.targets(word);
  } else {
    draw_negatives(word, random, window);
  }
}

AliasTable::AliasTable(std::span<const double> weights) : slots_(weights.size()) {
  const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  std::vector<double> share(weights.size());  // of the slots' mean
  std::vector<std::size_t> small, large;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    share[i] = weights[i] / mean;
    (share[i] < 1 ? small : large).push_back(i);
  }
  while (!small.empty() && !large.empty()) {
    const std::size_t from = large.back(), to = small.back();
    small.pop_back();
    slots_[to] = {.own = static_cast<std::uint32_t>(share[to] * 0x1p32), .other = static_cast<std::int32_t>(from)};
    share[from] -= 1 - share[to];
    if (share[from] < 1) {
      large.pop_back();
      small.push_back(from);
    }
  }
  for (const auto& rest : {small, large}) {
    for (const std::size_t i : rest) {
      slots_[i] = {.own = std::numeric_limits<std::uint32_t>::max(), .other = static_cast<std::int32_t>(i)};
    }
  }
}

HuffmanTree::HuffmanTree(std::span<const std::int64_t> counts) {
  const std::size_t words = counts.size();
  // Leaves 0 … V−1, then inner nodes in the order in which they are made; the root comes last.
  std::vector<std::size_t> parent(2 * words);
  std::vector<float> branch(2 * words);
  using Entry = std::pair<std::int64_t, std::size_t>;  // count, node
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  for (std::size_t i = 0; i < words; ++i) open.push({counts[i], i});
  for (std::size_t made = words; open.size() > 1; ++made) {
    const Entry first = open.top();
    open.pop();
    const Entry second = open.top();
    open.pop();
    parent[first.second] = parent[second.second] = made;
    branch[first.second] = 1;
    open.push({first.first + second.first, made});
  }
  const std::size_t root = words < 2 ? 0 : 2 * words - 2;
  offsets_.push_back(0);
  for (std::size_t word = 0; word < words; ++word) {
    const std::size_t first = nodes_.size();
    for (std::size_t node = word; node != root; node = parent[node]) {
      nodes_.push_back(static_cast<std::int32_t>(parent[node] - words));
      targets_.push_back(branch[node]);
    }
    std::reverse(nodes_.begin() + static_cast<std::ptrdiff_t>(first), nodes_.end());
    std::reverse(targets_.begin() + static_cast<std::ptrdiff_t>(first), targets_.end());
    offsets_.push_back(nodes_.size());
  }
}

std::size_t HuffmanTree::longest() const {
  std::size_t longest = 0;
  for (std::size_t i = 1; i < offsets_.size(); ++i) longest = std::max(longest, offsets_[i] - offsets_[i - 1]);
  return longest;
}

}  // namespace unisono::models
