#include "divided_sums.hpp"

#include <algorithm>
#include <barrier>
#include <catch2/catch.hpp>
#include <cmath>
#include <divisions.hpp>
#include <mutex>
#include <numeric>
#include <thread>

#include "unisono/kernels/backend.hpp"

namespace unisono::optim {
namespace {

/// Sums over threads that all call it.
class ThreadSquares final : public SquaresReducer {
 public:
  explicit ThreadSquares(int threads) : all_here_(threads) {}
  void sum(std::span<ExactSquares> sums) override {
    {
      const std::lock_guard guard(mutex_);
      if (all_.empty()) ++messages_;
      all_.resize(sums.size());
      for (std::size_t i = 0; i < sums.size(); ++i) all_[i].add(sums[i]);
    }
    all_here_.arrive_and_wait();
    std::copy(all_.begin(), all_.end(), sums.begin());
    all_here_.arrive_and_wait();
    {
      const std::lock_guard guard(mutex_);
      all_.clear();
    }
    all_here_.arrive_and_wait();
  }
  double sum(double) override { throw std::logic_error("CPUs sum exactly"); }
  int messages() const { return messages_; }

 private:
  std::barrier<> all_here_;
  std::mutex mutex_;
  std::vector<ExactSquares> all_;
  int messages_ = 0;
};

float element_value(const Element& element) {
  return 0.3F + static_cast<float>(element.position) / static_cast<float>(3 + element.block);
}

std::vector<float> values_on(const ShardMap& map, int rank) {
  std::vector<float> values(static_cast<std::size_t>(map.local(rank).size()));
  test::for_each_held(map, rank, [&](Element element, std::size_t at) { values[at] = element_value(element); });
  return values;
}

/// Calls work(rank, sums, add) on a thread for each rank. \return how many messages there were
template <typename Work>
int on_ranks(const ShardMap& map, Work work) {
  ThreadSquares ranks(map.ranks());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < map.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto backend = kernels::make_cpu_backend(1);
      const std::vector<float> values = values_on(map, rank);
      DividedSums sums({.map = map, .rank = rank, .ranks = ranks});
      work(rank, sums, [&](const kernels::UpdateRange& range, bool exactly, ExactSquares& sum) {
        backend->sum_squares(values, {&range, 1}, exactly, {&sum, 1});
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks.messages();
}

/// Blocks of weights and others, none with rows beside another's.
ParameterLayout plain_layout() {
  ParameterLayout layout;
  layout.add({.name = "convolution.weight", .shape = {4, 3, 2, 2}, .axes = {2, 3, 0, 1}});
  layout.add({.name = "convolution.bias", .shape = {4}, .role = Role::bias});
  layout.add({.name = "dense.weight", .shape = {9, 7}});
  layout.add({.name = "norm.scale", .shape = {37}, .role = Role::norm});
  layout.add({.name = "last.weight", .shape = {3, 9}});
  layout.add({.name = "one", .shape = {1}});
  return layout;
}

TEST_CASE("norms of all of θ and of its blocks have the same bits however θ is divided", "[divided_sums]") {
  const ParameterLayout layout = plain_layout();
  const auto backend = kernels::make_cpu_backend(1);
  const std::vector<float> all = values_on(ShardMap::whole(layout, 1), 0);
  const double norm = backend->squared_norm(all);
  for (const int ranks : {1, 2, 3, 4}) {
    for (const auto& [name, map] : test::divisions_of(layout, ranks)) {
      INFO(name << " over " << ranks);
      std::vector<int> wrong(static_cast<std::size_t>(ranks), 0);  // Catch's macros are for one thread
      const int messages = on_ranks(map, [&](int rank, DividedSums& sums, const DividedSums::Add& add) {
        int& mistakes = wrong[static_cast<std::size_t>(rank)];
        mistakes += sums.whole(add) == norm ? 0 : 1;
        const auto ranges = make_ranges(map.local(rank), {.adapt_weights = true});
        std::vector<double> norms(ranges.size(), -1), again(ranges.size(), -1);
        sums.of_blocks(ranges, {{add, norms}, {add, again}});
        mistakes += norms == again ? 0 : 1;
        for (std::size_t i = 0; i < ranges.size(); ++i) {
          const auto element = map.element_at(rank, ranges[i].first);
          const double block =
              kernels::make_cpu_backend(1)->squared_norm(part(View(all), layout.blocks()[element->block]));
          mistakes += norms[i] == (ranges[i].adapted ? block : 0) ? 0 : 1;
        }
      });
      CHECK(wrong == std::vector<int>(wrong.size(), 0));
      CHECK(messages >= 2);
      CHECK(messages <= 4);
    }
  }
}

/// A layout with blocks whose rows lie beside each other, in parts that begin anywhere, between two others.
ParameterLayout interleaved_layout() {
  ParameterLayout layout;
  layout.add({.name = "first.weight", .shape = {9, 7}});
  layout.add_rows({{{.name = "table.factors", .shape = {6, 5}}, 0},
                   {{.name = "table.biases", .shape = {6, 1}, .role = Role::bias}, 5}},
                  16);
  layout.add({.name = "frozen.weight", .shape = {40}, .frozen = true});
  layout.add({.name = "last.bias", .shape = {21}, .role = Role::bias});
  return layout;
}

/// Of each piece of so many lines, every rank has about equally many: the slices of a gradient's buckets.
std::vector<FloatRange> slices_of(const ParameterLayout& layout, Index lines, int rank, int ranks) {
  std::vector<FloatRange> slices;
  for (Index first = 0; first < layout.size(); first += lines * kLineFloats) {
    const Index here = std::min(lines, (layout.size() - first) / kLineFloats);
    const FloatRange slice{first + here * rank / ranks * kLineFloats, first + here * (rank + 1) / ranks * kLineFloats};
    if (slice.first < slice.last) slices.push_back(slice);
  }
  return slices;
}

std::vector<float> some_values(Index size, int seed) {
  std::vector<float> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(seed) + static_cast<float>(i));
  return values;
}

TEST_CASE("ranks that each update ranges of θ make the step of one that updates all, bit for bit", "[divided_sums]") {
  for (const ParameterLayout& layout : {plain_layout(), interleaved_layout()}) {
    for (const char* kind : {"adamw", "lars", "lamb"}) {
      const OptimizerSettings settings{.kind = kind, .learning_rate = 0.1, .weight_decay = 0.01, .clip_norm = 0.5};
      const std::vector<float> gradient = some_values(layout.size(), 1);
      std::vector<float> whole = some_values(layout.size(), 2);
      const auto backend = kernels::make_cpu_backend(1);
      const auto optimizer = make_optimizer(settings, layout, *backend);
      for (int step = 0; step < 3; ++step) optimizer->step(whole, gradient, 0.1);

      for (const Index lines : {1, 3, 100}) {
        const int ranks = 3;
        INFO(kind << ", " << layout.blocks().front().name << " first, " << lines << " lines");
        std::vector<float> together = some_values(layout.size(), 2);
        ThreadSquares squares(ranks);
        std::vector<std::thread> threads;
        for (int rank = 0; rank < ranks; ++rank) {
          threads.emplace_back([&, rank] {
            const std::vector<FloatRange> slices = slices_of(layout, lines, rank, ranks);
            std::vector<std::size_t> blocks(layout.blocks().size());
            std::iota(blocks.begin(), blocks.end(), std::size_t{0});
            const auto cpu = kernels::make_cpu_backend(1);
            const auto own = make_optimizer(
                settings,
                {.layout = layout, .ranges = slices, .blocks = blocks, .all_blocks = blocks.size(), .ranks = squares},
                *cpu);
            std::vector<float> theta, g;
            for (const FloatRange& slice : slices) {
              theta.insert(theta.end(), together.begin() + slice.first, together.begin() + slice.last);
              g.insert(g.end(), gradient.begin() + slice.first, gradient.begin() + slice.last);
            }
            for (int step = 0; step < 3; ++step) own->step(theta, g, 0.1);
            auto from = theta.begin();
            for (const FloatRange& slice : slices) {
              std::copy_n(from, slice.last - slice.first, together.begin() + slice.first);
              from += slice.last - slice.first;
            }
          });
        }
        for (std::thread& thread : threads) thread.join();
        CHECK(together == whole);
      }
    }
  }
}

TEST_CASE("θ is divided where some rank holds less than all of it", "[divided_sums]") {
  const ParameterLayout layout = plain_layout();
  CHECK_FALSE(is_divided(ShardMap::whole(layout, 3)));
  CHECK_FALSE(is_divided(ShardMap::by_rows(layout, 1)));
  CHECK(is_divided(ShardMap::by_rows(layout, 2)));
  CHECK(is_divided(ShardMap::by_weights(layout, {1, 0})));
}

}  // namespace
}  // namespace unisono::optim
