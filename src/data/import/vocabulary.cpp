#include "import/vocabulary.hpp"

#include <algorithm>

namespace unisono::data {

void sort_words(const StringTable& words, const std::vector<std::int64_t>& counts, std::vector<std::uint32_t>& chosen) {
  std::sort(chosen.begin(), chosen.end(), [&](std::uint32_t a, std::uint32_t b) {
    return counts[a] != counts[b] ? counts[a] > counts[b] : words[a] < words[b];
  });
}

std::vector<std::uint32_t> choose_words(const StringTable& words, const std::vector<std::int64_t>& counts,
                                        const TextOptions& options) {
  std::vector<std::uint32_t> chosen;
  for (std::uint32_t word = 0; word < words.size(); ++word) {
    if (counts[word] >= options.minimum_count) chosen.push_back(word);
  }
  sort_words(words, counts, chosen);
  if (options.maximum_words > 0 && chosen.size() > static_cast<std::size_t>(options.maximum_words))
    chosen.resize(static_cast<std::size_t>(options.maximum_words));
  return chosen;
}

}  // namespace unisono::data
