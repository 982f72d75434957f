#include "unisono/comm/agreement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "unisono/base/errors.hpp"

namespace unisono::comm {

void require_same(comm::Communicator& group, const std::string& what, std::uint64_t hash, const std::string& remedy) {
  const auto texts = group.all_gather_text(fmt::format("{:016x} {}", hash, group.host()));
  std::vector<std::string> hashes;
  for (const std::string& text : texts) hashes.push_back(text.substr(0, 16));
  const auto votes = [&](const std::string& value) { return std::count(hashes.begin(), hashes.end(), value); };
  // The first of the most frequent: a draw goes to the lowest rank's.
  const std::string& common = *std::max_element(hashes.begin(), hashes.end(),
                                                [&](const auto& a, const auto& b) { return votes(a) < votes(b); });
  std::vector<std::string> others;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != common) others.push_back(fmt::format("rank {} on {}", rank, texts[rank].substr(17)));
  }
  if (others.empty()) return;
  const auto same = std::find(hashes.begin(), hashes.end(), common) - hashes.begin();
  throw LaunchError(fmt::format("the {} of {} differs from that of rank {} on {}: {}", what, fmt::join(others, ", "),
                                same, texts[static_cast<std::size_t>(same)].substr(17), remedy));
}

}  // namespace unisono::comm
