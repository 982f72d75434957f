#include "words/windows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

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

}  // namespace unisono::models
