#include "batch/portions.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "expect.hpp"
#include "unisono/kernels/backend.hpp"

namespace unisono::strategies {
namespace {

constexpr Index kSize = 70;

/// A portion's gradient: numbers whose sums round differently in every order.
std::vector<float> gradient_of(int portion) {
  std::mt19937 random(static_cast<unsigned>(portion));
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(kSize);
  for (float& value : values) value = uniform(random) * std::exp2(static_cast<float>(portion % 7));
  return values;
}

void compute(Subtrees& subtrees, int portion) {
  const std::vector<float> values = gradient_of(portion);
  std::ranges::copy(values, subtrees.leaf().begin());
  subtrees.add(portion);
}

std::vector<float> sum_in_order(int portions) {
  const auto backend = kernels::make_cpu_backend(1);
  Subtrees subtrees(portions, kSize, *backend);
  for (int portion = 0; portion < portions; ++portion) compute(subtrees, portion);
  REQUIRE(subtrees.nodes().size() == 1);
  CHECK(subtrees.nodes().front() == subtrees.tree().root());
  const View sum = subtrees.vectors().front();
  return {sum.begin(), sum.end()};
}

TEST_CASE("consecutive portions take few vectors", "[subtrees]") {
  const auto backend = kernels::make_cpu_backend(1);
  Subtrees subtrees(64, kSize, *backend);
  for (int portion = 0; portion < 64; ++portion) compute(subtrees, portion);
  CHECK(subtrees.nodes().size() == 1);
  CHECK(subtrees.most_vectors() == 7);  // six levels wait, and one portion is in progress
  subtrees.clear();
  for (int portion = 5; portion < 27; ++portion) compute(subtrees, portion);
  CHECK(subtrees.nodes() == subtrees.tree().cover({5, 27}));
}

TEST_CASE("the sum has the same bits whoever computed what, even twice", "[subtrees]") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    const int ranks = std::uniform_int_distribution(1, 4)(random);
    const int portions = std::uniform_int_distribution(1, 40)(random);
    std::vector<std::vector<int>> of_rank(static_cast<std::size_t>(ranks));
    for (int portion = 0; portion < portions; ++portion) {
      const int owner = std::uniform_int_distribution(0, ranks - 1)(random);
      of_rank[static_cast<std::size_t>(owner)].push_back(portion);
      const int other = std::uniform_int_distribution(0, 3 * ranks)(random);
      if (other < ranks && other != owner) of_rank[static_cast<std::size_t>(other)].push_back(portion);
    }
    for (auto& own : of_rank) std::ranges::shuffle(own, random);
    const std::vector<float> expected = sum_in_order(portions);
    comm::run_as_threads(ranks, [&](comm::Communicator& communicator) {
      const auto backend = kernels::make_cpu_backend(1);
      Subtrees subtrees(portions, kSize, *backend);
      for (const int portion : of_rank[static_cast<std::size_t>(communicator.rank())]) compute(subtrees, portion);
      std::vector<std::vector<comm::SumTree::Node>> nodes(static_cast<std::size_t>(ranks));
      const std::vector<comm::SumTree::Node> own = subtrees.nodes();
      const auto all = communicator.all_gather_bytes(std::as_bytes(std::span(own)));
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const auto* const first = reinterpret_cast<const comm::SumTree::Node*>(all[rank].data());
        nodes[rank].assign(first, first + all[rank].size() / sizeof(comm::SumTree::Node));
      }
      const VectorShards shards(kSize, ranks);
      Buffer shard(shards.shard_size(communicator.rank())), whole(kSize);
      const std::vector<View> vectors = subtrees.vectors();
      sum_to_shards(communicator, comm::TreeSum(subtrees.tree(), nodes), vectors, shards, shard.view());
      gather_shards(communicator, shards, shard.view(), whole.view());
      EXPECT(std::ranges::equal(whole.view(), expected));
    });
  }
}

}  // namespace
}  // namespace unisono::strategies
