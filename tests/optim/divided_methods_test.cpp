#include <algorithm>
#include <barrier>
#include <catch2/catch.hpp>
#include <thread>

#include "functions.hpp"

// Methods work on the shards of ranks, which call their function together.

namespace unisono::optim {
namespace {

constexpr Index kPieceOfSums = 4;  // elements: shards begin at multiples of it

/// What the ranks share: a vector in whole, and the sums of each piece.
struct Ranks {
  Ranks(int ranks, Index size, Smooth smooth)
      : arrived(ranks), vector(static_cast<std::size_t>(size)), whole(size, std::move(smooth)) {}
  std::barrier<> arrived;
  std::vector<float> vector;
  std::vector<std::vector<double>> pieces;
  std::vector<double> largest;
  TestFunction whole;
};

/// Elements [first, last) of a function that threads have together.
class Shard final : public BatchFunction {
 public:
  Shard(Ranks& ranks, int rank, Index first, Index last) : ranks_(ranks), rank_(rank), first_(first), last_(last) {}

  Index size() const override { return last_ - first_; }
  double value_and_gradient(View x, MutableView gradient) override {
    gather(x);
    std::vector<float> g(ranks_.vector.size());
    TestFunction own = ranks_.whole;
    const double value = own.value_and_gradient(ranks_.vector, g);
    std::copy(g.begin() + first_, g.begin() + last_, gradient.begin());
    ranks_.arrived.arrive_and_wait();
    return value;
  }
  bool hessian_times(View x, View v, MutableView product) override {
    gather(x);
    const std::vector<float> whole_x = ranks_.vector;
    ranks_.arrived.arrive_and_wait();
    gather(v);
    std::vector<float> whole_product(whole_x.size());
    TestFunction own = ranks_.whole;
    own.hessian_times(whole_x, ranks_.vector, whole_product);
    std::copy(whole_product.begin() + first_, whole_product.begin() + last_, product.begin());
    ranks_.arrived.arrive_and_wait();
    return true;
  }
  void sum(std::span<double> sums, const AddTerms& add) override {
    const std::size_t count = (ranks_.vector.size() + kPieceOfSums - 1) / kPieceOfSums;
    if (rank_ == 0) ranks_.pieces.assign(count, std::vector<double>(sums.size()));
    ranks_.arrived.arrive_and_wait();
    for (Index at = 0; at < size(); at += kPieceOfSums) {
      add(at, std::min(at + kPieceOfSums, size()),
          ranks_.pieces[static_cast<std::size_t>((first_ + at) / kPieceOfSums)]);
    }
    ranks_.arrived.arrive_and_wait();
    std::ranges::fill(sums, 0);
    for (const auto& piece : ranks_.pieces) {
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += piece[i];
    }
    ranks_.arrived.arrive_and_wait();
  }
  double largest_magnitude(View v) override {
    gather(v);
    const double largest = ranks_.whole.largest_magnitude(ranks_.vector);
    ranks_.arrived.arrive_and_wait();
    return largest;
  }
  std::span<const L1Range> l1() const override { return ranges; }
  bool has_l1() const override { return penalised; }

  std::vector<L1Range> ranges{};
  bool penalised = false;

 private:
  void gather(View v) {
    std::ranges::copy(v, ranks_.vector.begin() + first_);
    ranks_.arrived.arrive_and_wait();
  }

  Ranks& ranks_;
  int rank_;
  Index first_, last_;
};

/// x and values after some iterations. Even elements of the first half have a penalty, if wanted.
std::vector<double> run(const OptimizerSettings& settings, std::vector<Index> ends, bool l1) {
  const int count = static_cast<int>(ends.size());
  const Index size = ends.back();
  Ranks ranks(count, size, rosenbrock());
  std::vector<float> x = repeated({-1.2F, 1}, static_cast<int>(size / 2));
  std::vector<double> values;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    const Index first = rank == 0 ? 0 : ends[static_cast<std::size_t>(rank - 1)],
                last = ends[static_cast<std::size_t>(rank)];
    threads.emplace_back([&, rank, first, last] {
      Shard shard(ranks, rank, first, last);
      shard.penalised = l1;
      for (Index i = first; l1 && i < std::min(last, size / 2); i += 2)
        shard.ranges.push_back({i - first, i - first + 1, 0.1});
      const auto method = make_batch_method(settings, last - first);
      const MutableView own =
          std::span(x).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
      for (int i = 0; i < 40; ++i) {
        const BatchIteration now = method->iterate(shard, own);
        if (rank == 0) values.insert(values.end(), {now.value, now.gradient_magnitude, now.step_length});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  values.insert(values.end(), x.begin(), x.end());
  return values;
}

}  // namespace

TEST_CASE("the iterates do not depend on how many ranks there are", "[batch_methods]") {
  for (const OptimizerKind& kind : optimizer_kinds()) {
    if (kind.make_batch == nullptr) continue;
    for (const bool l1 : {false, true}) {
      if (l1 && !kind.traits.takes_l1) continue;
      INFO(kind.name << (l1 ? " with l1" : ""));
      const OptimizerSettings settings = whole_batch(std::string(kind.name));
      const std::vector<double> one = run(settings, {24}, l1);
      CHECK(run(settings, {12, 24}, l1) == one);
      CHECK(run(settings, {4, 16, 24}, l1) == one);
      CHECK(run(settings, {8, 8, 24}, l1) == one);
    }
  }
}

}  // namespace unisono::optim
