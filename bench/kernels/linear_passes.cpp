// Passes of linear models over many examples with one θ, on one core and on all: values of features per second (one
// product in the margin and one in the gradient each; a Hessian matrix takes more of them), and bytes of the triad's or
// flops of the peak.
//   dense rows that no cache holds: 4 bytes a value are read once
//   sparse:  4 bytes a value for its column, 4 for itself, and θ and g, which caches hold or not
#include <memory>
#include <thread>

#include "harness.hpp"
#include "unisono/base/random.hpp"
#include "unisono/kernels/linear.hpp"

namespace unisono::bench {
namespace {

using Floats = std::vector<float>;

/// Examples and θ, v and g.
struct PassCase {
  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> columns;
  Floats values, targets, matrix;
  SparseRows rows;
  kernels::LinearExamples examples;
  kernels::LinearLossSpec loss;
  Buffer theta, v, g;
  double products = 0;  ///< values of all examples

  PassCase(Index count, Index features, Index classes) {
    loss.classes = classes;
    loss.width = classes > 0 ? round_up_to_line(classes) : 1;
    RandomStream random(5, Purpose::test);
    for (Index i = 0; i < count; ++i) {
      targets.push_back(static_cast<float>(random.below(static_cast<std::uint64_t>(std::max<Index>(2, classes)))));
    }
    examples.count = count;
    examples.features = features;
    examples.targets = targets.data();
    for (Buffer* one : {&theta, &v, &g}) *one = Buffer((features + 1) * loss.width);
    for (float& one : theta.view()) one = random.uniform(-0.1F, 0.1F);
    for (float& one : v.view()) one = random.uniform(-0.1F, 0.1F);
  }
  template <typename Float>
  kernels::LinearVector<Float> at(Buffer& buffer) const {
    return {buffer.data(), buffer.data() + examples.features * loss.width};
  }
};

/// Rows of `a_row` values, one of each of so many equal parts of the features.
std::shared_ptr<PassCase> sparse_case(Index count, Index features, Index a_row, bool ones, Index classes) {
  const auto made = std::make_shared<PassCase>(count, features, classes);
  RandomStream random(6, Purpose::test);
  for (Index i = 0; i < count; ++i) {
    for (Index k = 0; k < a_row; ++k) {
      const Index low = k * features / a_row, high = (k + 1) * features / a_row;
      made->columns.push_back(static_cast<std::uint32_t>(low + static_cast<Index>(random.below(high - low))));
      if (!ones) made->values.push_back(random.uniform());
    }
    made->offsets.push_back(made->columns.size());
  }
  made->rows = {made->offsets, made->columns, made->values, features};
  made->examples.rows = &made->rows;
  made->products = static_cast<double>(made->columns.size());
  return made;
}

std::shared_ptr<PassCase> dense_case(Index count, Index features, Index classes) {
  const auto made = std::make_shared<PassCase>(count, features, classes);
  made->values.resize(static_cast<std::size_t>(count * features), 0.5F);
  made->examples.values = made->values.data();
  made->products = static_cast<double>(count * features);
  return made;
}

/// Calls visit(name, pass) for each kind of pass that a case allows; pass(passes, case).
template <typename Visit>
void for_each_pass(bool matrix, const Visit& visit) {
  using kernels::LinearPasses;
  visit("/gradient", [](LinearPasses& passes, PassCase& c) {
    kernels::LossSums sums;
    passes.gradient(c.examples, c.loss, 1e-6F, c.at<const float>(c.theta), c.at<float>(c.g), sums);
  });
  visit("/hessian_product", [](LinearPasses& passes, PassCase& c) {
    passes.hessian_product(c.examples, c.loss, 1e-6F, c.at<const float>(c.theta), c.at<const float>(c.v),
                           c.at<float>(c.g));
  });
  if (!matrix) return;
  visit("/hessian", [](LinearPasses& passes, PassCase& c) {
    const Index n = c.examples.features + 1;
    c.matrix.resize(static_cast<std::size_t>(n * n));
    passes.hessian(c.examples, c.loss, 1e-6F, c.at<const float>(c.theta),
                   {c.matrix.data(), n, c.matrix.data() + n * (n - 1), c.matrix.data() + n * n - 1});
  });
}

void add_pass(const std::string& name, const std::function<std::shared_ptr<PassCase>()>& make, Work each,
              bool matrix = false) {
  std::vector<int> counts{1};
  if (const int all = static_cast<int>(std::thread::hardware_concurrency()); all > 1) counts.push_back(all);
  for_each_pass(matrix, [&](const std::string& kind, auto pass) {
    for (const int threads : counts) {
      const std::string full = name + kind + "/threads:" + std::to_string(threads);
      const auto entry = benchmark::RegisterBenchmark(full.c_str(), [=](benchmark::State& state) {
        static std::string made_name;
        static std::shared_ptr<PassCase> made;
        if (made_name != name) made.reset(), made = make(), made_name = name;
        PassCase& c = *made;
        const auto passes = kernels::make_linear_passes(threads);
        passes->begin_set();
        for (auto _ : state) pass(*passes, c);
        state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(c.products));
        report(state, c.products * each, threads);
      });
      if (threads > 1) entry->UseRealTime();
    }
  });
}

const bool registered = [] {
  add_pass(
      "logistic_pass/14of123", [] { return sparse_case(32561, 123, 14, true, 0); }, in_bytes(4), true);  // as a9a
  add_pass(
      "logistic_pass/50of47k", [] { return sparse_case(20000, 47236, 50, false, 0); }, in_bytes(8));
  add_pass(
      "logistic_pass/50of1250k", [] { return sparse_case(20000, 1250000, 50, false, 0); }, in_bytes(8));
  add_pass(
      "logistic_pass/dense100", [] { return dense_case(1000000, 100, 0); }, in_bytes(4), true);
  add_pass(
      "softmax_pass/dense784x10", [] { return dense_case(20000, 784, 10); }, in_flops(40));
  add_pass(
      "softmax_pass/75of47kx10", [] { return sparse_case(5000, 47236, 75, false, 10); }, in_flops(40));
  return true;
}();

}  // namespace
}  // namespace unisono::bench
