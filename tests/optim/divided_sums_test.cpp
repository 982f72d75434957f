#include "update_rule.hpp"

#include <algorithm>
#include <barrier>
#include <catch2/catch.hpp>
#include <deque>
#include <divisions.hpp>
#include <mutex>
#include <stdexcept>
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

float element_value(const test::Element& element) {
  return 0.3F + static_cast<float>(element.position) / static_cast<float>(3 + element.block);
}

std::vector<float> values_on(const ShardMap& map, int rank) {
  std::vector<float> values(static_cast<std::size_t>(map.local(rank).size()));
  test::for_each_held(map, rank, [&](test::Element element, std::size_t at) { values[at] = element_value(element); });
  return values;
}

/// Calls work(rank, sums, add) on a thread for each rank. \return how many messages the ranks of each copy sent
template <typename Work>
std::vector<int> on_ranks(const ShardMap& map, Work work) {
  const int of_copy = map.ranks() / map.copies();
  std::deque<ThreadSquares> copies;
  for (int copy = 0; copy < map.copies(); ++copy) copies.emplace_back(of_copy);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < map.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto backend = kernels::make_cpu_backend(1);
      const std::vector<float> values = values_on(map, rank);
      const MapHolding held(map, rank, copies[static_cast<std::size_t>(rank / of_copy)]);
      DividedSums sums(held);
      work(rank, sums, [&](const kernels::UpdateRange& range, bool exactly, ExactSquares& sum) {
        backend->sum_squares(values, {&range, 1}, exactly, {&sum, 1});
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> messages;
  for (const ThreadSquares& copy : copies) messages.push_back(copy.messages());
  return messages;
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
  const std::vector<float> all = values_on(test::whole(layout, 1), 0);
  const double norm = backend->squared_norm(all);
  for (const int ranks : {1, 2, 3, 4}) {
    for (const auto& [name, division] : test::divisions_of(layout, ranks)) {
      const auto& map = division;  // for clang 14, whose lambdas do not see names that are bound together
      test::LocalSquares unused;
      if (MapHolding(map, 0, unused).held_by_all()) continue;
      INFO(name << " over " << ranks);
      std::vector<int> wrong(static_cast<std::size_t>(ranks), 0);  // Catch's macros are for one thread
      const std::vector<int> messages = on_ranks(map, [&](int rank, DividedSums& sums, const DividedSums::Add& add) {
        int& mistakes = wrong[static_cast<std::size_t>(rank)];
        mistakes += sums.whole(add) == norm ? 0 : 1;
        const auto ranges = make_ranges(map.local(rank), {.adapt_weights = true});
        std::vector<double> norms(ranges.size(), -1), again(ranges.size(), -1);
        sums.of_blocks(ranges, {{add, norms}, {add, again}});
        mistakes += norms == again ? 0 : 1;
        for (std::size_t i = 0; i < ranges.size(); ++i) {
          const auto element = test::element_at(map, rank, ranges[i].first);
          const double block =
              kernels::make_cpu_backend(1)->squared_norm(part(View(all), layout.blocks()[element->block]));
          mistakes += norms[i] == (ranges[i].adapted ? block : 0) ? 0 : 1;
        }
      });
      CHECK(wrong == std::vector<int>(wrong.size(), 0));
      for (const int sent : messages) {
        CHECK(sent >= 2);
        CHECK(sent <= 4);
      }
    }
  }
}

}  // namespace
}  // namespace unisono::optim
