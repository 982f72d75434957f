#include <thread>

#include "sparse_case.hpp"
#include "window_case.hpp"

// Two threads run each kernel on one θ at once, as Hogwild does. The thread sanitizer has nothing to say about it, and
// what they learn together is finite and better than what they began with.

namespace unisono::kernels::cpu {
namespace {

template <typename Work>
void on_two_threads(const Work& work) {
  std::thread other([&] { work(1); });
  work(0);
  other.join();
}

/// The loss of the first pass and of a pass after two threads have made `passes`.
template <typename Pass>
void check_learning(const Pass& pass, int passes) {
  const double before = pass();
  on_two_threads([&](int) {
    for (int i = 0; i < passes; ++i) pass();
  });
  const double after = pass();
  CHECK(std::isfinite(after));
  CHECK(after < before);
}

}  // namespace

TEST_CASE("two threads train a linear model without locks", "[hogwild]") {
  const SparseCase c(300, 40, 12, 2);
  const Floats dense = c.dense();
  with_all_kernels([&](const InPlaceKernels& kernels) {
    Floats w(41), u(41);
    const LinearStep step{.rate = 0.05F, .l1 = 1e-5F, .l2 = 1e-5F, .spread = c.spread.data()};
    const LinearWeights weights{w.data(), &w[40], u.data(), &u[40]};
    const auto pass = [&] {
      return kernels.linear(c.rows(true), c.targets, 0, c.count(), MarginLoss::logistic, step, weights).loss +
             kernels.linear(dense, c.targets, c.count(), c.width, MarginLoss::logistic, step, weights).loss;
    };
    check_learning(pass, 5);
    Floats margins(c.size());
    on_two_threads([&](int thread) {
      if (thread == 0) pass();
      if (thread == 1) kernels.margins(c.rows(true), 0, c.count(), weights, margins);
    });
  });
}

TEST_CASE("two threads train a softmax regression without locks", "[hogwild]") {
  const SparseCase c(300, 40, 12, 3);
  const Floats dense = c.dense();
  with_all_kernels([&](const InPlaceKernels& kernels) {
    TestMatrix w(41, 3, 1), u(41, 3, 2, 0);
    const LinearStep step{.rate = 0.05F, .l1 = 1e-5F, .l2 = 1e-5F, .spread = c.spread.data()};
    const SoftmaxWeights weights{w.view(), w.row(40), u.view(), u.row(40), 3};
    const auto pass = [&] {
      return kernels.softmax(c.rows(true), c.targets, 0, c.count(), step, weights).loss +
             kernels.softmax(dense, c.targets, c.count(), c.width, step, weights).loss;
    };
    check_learning(pass, 5);
    CHECK(w.tidy());
    Floats margins(3 * c.size());
    on_two_threads([&](int thread) {
      if (thread == 0) pass();
      if (thread == 1) kernels.margins(c.rows(true), 0, c.count(), weights, margins);
    });
  });
}

TEST_CASE("two threads factorize a matrix and train word vectors without locks", "[hogwild]") {
  RandomStream random(9, Purpose::test);
  std::vector<SparseEntry> entries;
  for (int i = 0; i < 500; ++i) {
    entries.push_back({static_cast<std::uint32_t>(random.below(10)), static_cast<std::uint32_t>(random.below(10)),
                       random.uniform(1, 3)});
  }
  with_all_kernels([&](const InPlaceKernels& kernels) {
    TestMatrix users(10, 20, 1), items(10, 20, 2);
    const FactorRows p{users.view(), 20}, q{items.view(), 20};
    for (Index i = 0; i < 10; ++i) *p.bias(i) = *q.bias(i) = 0, *p.squares(i) = *q.squares(i) = 1;
    check_learning([&] { return kernels.factorize(entries, {.rate = 0.01F}, p, q).loss; }, 5);

    TestMatrix words(10, 21, 1, 0.5F, 48), contexts(10, 21, 2, 0.5F, 48);
    for (Index i = 0; i < 10; ++i)
      std::fill_n(words.row(i) + 32, 32, 1.0F), std::fill_n(contexts.row(i) + 32, 32, 1.0F);
    const GloveRows w{words.view(), 20}, v{contexts.view(), 20};
    check_learning([&] { return kernels.glove(entries, {.rate = 0.01F}, w, v).loss; }, 5);
  });
}

TEST_CASE("two threads train on windows without locks", "[hogwild]") {
  for (Index outputs : {6, 13}) {
    with_all_kernels([&](const InPlaceKernels& kernels) {
      WindowCase skip({1, 2, 3, 2, 9}, outputs, 100), bag({1, 2, 3, 2, 9}, outputs, 100);
      skip.next_context = bag.next_context = skip.context;
      skip.next_rows = bag.next_rows = skip.outputs;
      const auto repeat = [&](const auto& window) {
        double loss = 0;
        for (int i = 0; i < 50; ++i) loss += window();
        return loss;
      };
      const auto pass = [&](WindowCase& c, auto kernel) {
        return [&, kernel] {
          InPlaceSums sums;
          (kernels.*kernel)(c.context, c.wanted(), 0.01F, c.x.view(), c.y.view(), true, sums);
          return sums.loss;
        };
      };
      check_learning([&] { return repeat(pass(skip, &InPlaceKernels::skip_gram)); }, 3);
      check_learning([&] { return repeat(pass(bag, &InPlaceKernels::cbow)); }, 3);
      CHECK(skip.x.tidy());
      CHECK(bag.y.tidy());
    });
  }
}

}  // namespace unisono::kernels::cpu
