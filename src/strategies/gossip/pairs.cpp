#include "gossip/pairs.hpp"

#include "unisono/base/random.hpp"

namespace unisono::strategies {

std::vector<int> Pairs::partners_of(int rank) const {
  std::vector<int> partners;
  for (int other = 0; other < ranks_; ++other) {
    const bool is_pair = begins(rank) != begins(other);
    const int apart = (other - rank + ranks_) % ranks_;
    if (is_pair && (topology_ == PairTopology::complete || apart == 1 || apart == ranks_ - 1)) {
      partners.push_back(other);
    }
  }
  return partners;
}

int Pairs::partner(std::uint64_t seed, int rank, std::int64_t step) const {
  const std::vector<int> partners = partners_of(rank);
  RandomStream random(seed, Purpose::partners, static_cast<std::uint64_t>(step), static_cast<std::uint32_t>(rank));
  return partners[random.below(partners.size())];
}

}  // namespace unisono::strategies
