#include "cpu/instruction_set.hpp"

#include <numeric>

#include "sparse_case.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kClasses = 5, kWidth = 16;

/// What a pass is asked for.
struct Task {
  std::string name;
  LinearLossSpec loss;
  bool sparse, ones, weighted, bias;
  Index outputs() const { return std::max<Index>(1, loss.classes); }
  Index width() const { return loss.classes > 0 ? loss.width : 1; }
};

std::vector<Task> all_tasks() {
  std::vector<Task> tasks;
  const auto add = [&](const std::string& name, LinearLossSpec loss) {
    for (int bits = 0; bits < 16; ++bits) {
      const Task task{name, loss, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
      if (task.sparse || !task.ones) tasks.push_back(task);
    }
  };
  add("logistic", {.margin = MarginLoss::logistic});
  add("hinge", {.margin = MarginLoss::hinge});
  add("squared_hinge", {.margin = MarginLoss::squared_hinge});
  add("squared", {.margin = MarginLoss::squared});
  add("softmax", {.classes = kClasses, .width = kWidth});
  return tasks;
}

/// Weights of all features, then the bias, in rows of `width` floats of which `outputs` are used.
Floats random_vector(const Task& task, Index features, std::uint64_t stream) {
  Floats values(static_cast<std::size_t>((features + 1) * task.width()));
  const Floats drawn = random_floats(std::ssize(values), stream, -0.5F, 0.5F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (static_cast<Index>(i) % task.width() < task.outputs()) values[i] = drawn[i];
  }
  return values;
}

template <typename Float>
LinearVector<Float> view(const Task& task, Index features, Float* values) {
  return {values, task.bias ? values + features * task.width() : nullptr};
}

/// The examples of a case, all but its first row, and their weights.
struct Examples {
  const SparseCase& c;
  const Task& task;
  SparseRows rows;
  Floats dense, targets, weights;
  std::vector<std::vector<std::pair<std::size_t, double>>> entries;  ///< that are not 0, by row: feature and value

  Examples(const SparseCase& from, const Task& of) : c(from), task(of), rows(from.rows(!of.ones)), dense(from.dense()) {
    targets = c.targets;
    if (task.name == "squared") targets = random_floats(c.count(), 8);
    weights = random_floats(c.count(), 9, 0, 2);
    const auto width = static_cast<std::size_t>(c.width);
    for (std::size_t i = 0; i < c.size(); ++i) {
      auto& row = entries.emplace_back();
      for (std::size_t j = 0; j < width; ++j) {
        const double x = dense[i * width + j];
        if (x != 0) row.emplace_back(j, task.sparse && task.ones ? 1 : x);
      }
    }
  }
  Index count() const { return c.count() - 1; }
  LinearExamples view() const {
    LinearExamples examples{.count = count(), .features = c.width, .targets = targets.data() + 1};
    if (task.sparse) {
      examples.rows = &rows;
      examples.first = 1;
    } else {
      examples.values = dense.data() + c.width;
    }
    if (task.weighted) examples.weights = weights.data() + 1;
    return examples;
  }
};

/// In double: z of an example.
std::vector<double> margins(const Examples& e, std::size_t i, const std::vector<double>& theta) {
  const auto width = static_cast<std::size_t>(e.task.width()), features = static_cast<std::size_t>(e.c.width);
  std::vector<double> z(static_cast<std::size_t>(e.task.outputs()));
  for (std::size_t k = 0; k < z.size(); ++k) {
    if (e.task.bias) z[k] = theta[features * width + k];
    for (const auto& [j, x] : e.entries[i]) z[k] += x * theta[j * width + k];
  }
  return z;
}

double loss_of(const Task& task, const std::vector<double>& z, double answer) {
  const double yz = (2 * answer - 1) * z[0], slack = std::max(0.0, 1 - yz);
  if (task.name == "logistic") return std::max(0.0, -yz) + std::log1p(std::exp(-std::abs(yz)));
  if (task.name == "hinge") return slack;
  if (task.name == "squared_hinge") return slack * slack;
  if (task.name == "squared") return (z[0] - answer) * (z[0] - answer) / 2;
  double sum = 0;
  for (const double one : z) sum += std::exp(one);
  return std::log(sum) - z[static_cast<std::size_t>(answer)];
}

/// ∂ℓ/∂z
std::vector<double> slope_of(const Task& task, const std::vector<double>& z, double answer) {
  const double y = 2 * answer - 1, slack = std::max(0.0, 1 - y * z[0]);
  if (task.name == "logistic") return {-y / (1 + std::exp(y * z[0]))};
  if (task.name == "hinge") return {slack > 0 ? -y : 0};
  if (task.name == "squared_hinge") return {-2 * y * slack};
  if (task.name == "squared") return {z[0] - answer};
  std::vector<double> p;
  for (const double one : z) p.push_back(std::exp(one));
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& one : p) one /= sum;
  p[static_cast<std::size_t>(answer)] -= 1;
  return p;
}

struct Reference {
  double loss = 0;
  std::vector<double> gradient, sizes;  ///< sizes: Σ of the magnitudes that gradient's elements add up
};

Reference reference(const Examples& e, const std::vector<double>& theta) {
  const auto width = static_cast<std::size_t>(e.task.width()), features = static_cast<std::size_t>(e.c.width);
  Reference result{0, std::vector<double>(theta.size()), std::vector<double>(theta.size())};
  for (std::size_t i = 1; i < e.c.size(); ++i) {
    const double weight = e.task.weighted ? static_cast<double>(e.weights[i]) : 1, answer = e.targets[i];
    const std::vector<double> z = margins(e, i, theta), slope = slope_of(e.task, z, answer);
    result.loss += weight * loss_of(e.task, z, answer);
    for (std::size_t k = 0; k < slope.size(); ++k) {
      const auto add = [&](std::size_t j, double x) {
        result.gradient[j * width + k] += weight * slope[k] * x;
        result.sizes[j * width + k] += weight * std::abs(x) * (std::abs(slope[k]) + 4);
      };
      for (const auto& [j, x] : e.entries[i]) add(j, x);
      if (e.task.bias) add(features, 1);
    }
  }
  return result;
}

constexpr float kPassScale = 0.0625F;

struct Result {
  Floats vector;
  LossSums sums;
};

Result gradient(LinearPasses& passes, const Examples& e, const Floats& theta, const Floats& start) {
  Result result{start, {}};
  passes.gradient(e.view(), e.task.loss, kPassScale, view(e.task, e.c.width, theta.data()),
                  view(e.task, e.c.width, result.vector.data()), result.sums);
  return result;
}

Floats product(LinearPasses& passes, const Examples& e, const Floats& theta, const Floats& v) {
  Floats result(theta.size());
  passes.hessian_product(e.view(), e.task.loss, kPassScale, view(e.task, e.c.width, theta.data()),
                         view(e.task, e.c.width, v.data()), view(e.task, e.c.width, result.data()));
  return result;
}

/// The lower triangle of the weights' and the bias's Hessian, in rows of features + 1.
Floats hessian(LinearPasses& passes, const Examples& e, const Floats& theta) {
  const Index n = e.c.width + 1;
  Floats matrix(static_cast<std::size_t>(n * n));
  float* const bias = e.task.bias ? matrix.data() + e.c.width * n : nullptr;
  passes.hessian(e.view(), e.task.loss, kPassScale, view(e.task, e.c.width, theta.data()),
                 {matrix.data(), n, bias, matrix.data() + n * n - 1});
  return matrix;
}

/// In double: a symmetric matrix, of which the lower triangle is given, times v.
std::vector<double> symmetric_times(const Floats& lower, const Floats& v) {
  const std::size_t n = v.size();
  std::vector<double> result(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const double one = lower[i * n + j];
      result[i] += one * static_cast<double>(v[j]);
      if (i != j) result[j] += one * static_cast<double>(v[i]);
    }
  }
  return result;
}

template <typename T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Few features, so that blocks of rows have sums of their own; many, so that threads share the features; and sets of
/// a few rows.
std::vector<SparseCase> cases(std::uint64_t classes) {
  std::vector<SparseCase> all;
  all.emplace_back(3000, 30, 12, classes);
  all.emplace_back(700, 9000, 60, classes);
  all.emplace_back(80, 2500, 12, classes);
  all.emplace_back(6, 19, 12, classes);
  return all;
}

template <typename Check>
void for_all(const Check& check) {
  const std::vector<SparseCase> two = cases(2), several = cases(kClasses);
  for (const Task& task : all_tasks()) {
    for (const SparseCase& c : task.loss.classes > 0 ? several : two) {
      if (c.width == (task.sparse ? 2500 : 9000)) continue;
      INFO(task.name << (task.sparse ? ", sparse" : ", dense") << (task.ones ? ", ones" : "")
                     << (task.weighted ? ", weighted" : "") << (task.bias ? ", bias" : "") << ", " << c.count() << " × "
                     << c.width);
      check(Examples(c, task));
    }
  }
}

}  // namespace

TEST_CASE("passes of linear models give the gradient and the loss of a reference in double", "[long][linear]") {
  for_all([](const Examples& e) {
    const Floats theta = random_vector(e.task, e.c.width, 1), start = random_vector(e.task, e.c.width, 2);
    const Reference expected = reference(e, widen(theta));
    for (const InstructionSet set : available_instruction_sets()) {
      const auto passes = linear_passes_for(set, 1);
      const Result result = gradient(*passes, e, theta, start);
      // A margin of at most some 20 values below 1 errs by 20 u of their size, a derivative by its slope (≤ 2) times
      // that; errors of sums of n terms, in blocks of 256, grow as their roots do at random, and are here at most 40 u.
      double worst = 0;
      for (std::size_t i = 0; i < theta.size(); ++i) {
        const bool unused = static_cast<Index>(i) % e.task.width() >= e.task.outputs();
        const bool no_bias = !e.task.bias && static_cast<Index>(i) >= e.c.width * e.task.width();
        const double exact = unused || no_bias ? 0 : kPassScale * expected.gradient[i];
        const double error = std::abs(static_cast<double>(result.vector[i]) - static_cast<double>(start[i]) - exact);
        const double bound = 80 * kRoundoff * (kPassScale * expected.sizes[i]) + 4 * kRoundoff * (std::abs(exact) + 1);
        worst = std::max(worst, error / bound);
      }
      CHECK(worst <= 1);
      // Errors of the margins, which are of either sign, and of exponentials.
      const double mean_error = 1e-8 + 20 * kRoundoff / std::sqrt(static_cast<double>(e.count()));
      CHECK(result.sums.loss == Approx(expected.loss).epsilon(mean_error));
      CHECK(result.sums.examples == e.count());
    }
  });
}

TEST_CASE("passes of linear models have the same bits on any number of threads", "[long][linear]") {
  for_all([](const Examples& e) {
    const Floats theta = random_vector(e.task, e.c.width, 1), v = random_vector(e.task, e.c.width, 2);
    for (const InstructionSet set : available_instruction_sets()) {
      const auto one = linear_passes_for(set, 1);
      const Result expected = gradient(*one, e, theta, v);
      const Floats expected_product = product(*one, e, theta, v);
      for (const int threads : {2, 3, 5}) {
        const auto some = linear_passes_for(set, threads);
        const Result result = gradient(*some, e, theta, v);
        CHECK(same(result.vector, expected.vector));
        CHECK(result.sums.loss == expected.sums.loss);
        CHECK(result.sums.correct == expected.sums.correct);
        CHECK(same(product(*some, e, theta, v), expected_product));
      }
    }
  });
}

TEST_CASE("passes that keep bit columns give the same gradients and products, on any number of threads", "[linear]") {
  const SparseCase c(5000, 70, 14, 2);
  for (const Task& task : all_tasks()) {
    if (!task.sparse || !task.ones || task.loss.classes > 0) continue;
    INFO(task.name << (task.weighted ? ", weighted" : "") << (task.bias ? ", bias" : ""));
    const Examples e(c, task);
    const Floats theta = random_vector(task, c.width, 1), v = random_vector(task, c.width, 2);
    for (const InstructionSet set : available_instruction_sets()) {
      const auto plain = linear_passes_for(set, 1), kept = linear_passes_for(set, 1);
      kept->begin_set();
      const Result expected = gradient(*plain, e, theta, v), result = gradient(*kept, e, theta, v);
      const Floats expected_product = product(*plain, e, theta, v), result_product = product(*kept, e, theta, v);
      // Sums of up to 5000 terms in two orders; each errs at random by about √5000 u of their sizes, some 1000.
      for (std::size_t i = 0; i < theta.size(); ++i) {
        CHECK(result.vector[i] == Approx(expected.vector[i]).epsilon(1e-5).margin(5e-4));
        CHECK(result_product[i] == Approx(expected_product[i]).epsilon(1e-5).margin(5e-4));
      }
      CHECK(result.sums.loss == Approx(expected.sums.loss).epsilon(1e-7));
      CHECK(std::abs(result.sums.correct - expected.sums.correct) <= 1);  // a margin of about 0
      for (const int threads : {2, 3, 5}) {
        const auto some = linear_passes_for(set, threads);
        some->begin_set();
        const Result again = gradient(*some, e, theta, v);
        CHECK(same(again.vector, result.vector));
        CHECK(again.sums.loss == result.sums.loss);
        CHECK(same(product(*some, e, theta, v), result_product));
      }
    }
  }
}

TEST_CASE("bit columns are of the set that began last, and are counted", "[linear]") {
  Floats targets(100, 1.0F), g(2), theta(2);
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i <= 100; ++i) offsets.push_back(i);
  std::vector<std::uint32_t> columns(100, 0);
  const SparseRows rows{offsets, columns, {}, 2};
  const auto passes = linear_passes_for(available_instruction_sets().back(), 1);
  for (const std::uint32_t column : {0U, 1U}) {
    std::fill(columns.begin(), columns.end(), column);  // at the same place
    std::fill(g.begin(), g.end(), 0.0F);
    passes->begin_set();
    LossSums sums;
    // Rows 30 to 89: z = 0 for all, so that each adds −½.
    passes->gradient({.rows = &rows, .first = 30, .count = 60, .features = 2, .targets = targets.data() + 30}, {}, 1,
                     {theta.data(), nullptr}, {g.data(), nullptr}, sums);
    CHECK(g[column] == -30);
    CHECK(g[1 - column] == 0);
  }
  for (const InstructionSet set : available_instruction_sets()) {
    const Index bytes = linear_passes_for(set, 1)->kept_bytes(100, 2, 1);
    CHECK((bytes == 0 || bytes == 2 * 2 * 8 + 16 * 16 * 4));  // two blocks of two masks; 16 × 16 floats
    CHECK(linear_passes_for(set, 1)->kept_bytes(100, 13, 1) == 0);
  }
}

TEST_CASE("products with the Hessian are differences of the reference's gradients, and symmetric", "[long][linear]") {
  for_all([](const Examples& e) {
    const Floats theta = random_vector(e.task, e.c.width, 1);
    const Floats v = random_vector(e.task, e.c.width, 2), other = random_vector(e.task, e.c.width, 3);
    constexpr double kStep = 1e-4;
    std::vector<double> up = widen(theta), down = up;
    for (std::size_t i = 0; i < up.size(); ++i) {
      up[i] += kStep * static_cast<double>(v[i]);
      down[i] -= kStep * static_cast<double>(v[i]);
    }
    const Reference above = reference(e, up), below = reference(e, down);
    double largest = 1e-6;
    for (std::size_t i = 0; i < up.size(); ++i) {
      largest = std::max(largest, std::abs(kPassScale * (above.gradient[i] - below.gradient[i]) / (2 * kStep)));
    }
    for (const InstructionSet set : available_instruction_sets()) {
      const auto passes = linear_passes_for(set, 1);
      const Floats result = product(*passes, e, theta, v), transposed = product(*passes, e, theta, other);
      double worst = 0;
      for (std::size_t i = 0; i < up.size() && !e.task.name.ends_with("hinge"); ++i) {
        const double expected = kPassScale * (above.gradient[i] - below.gradient[i]) / (2 * kStep);
        worst = std::max(worst, std::abs(static_cast<double>(result[i]) - expected) / largest);
      }
      CHECK(worst <= 1e-5);
      // vᵀ (H w) = wᵀ (H v), up to the roundings of some hundred thousand products
      const double one = dot(widen(result), widen(other)), two = dot(widen(transposed), widen(v));
      double size = 0;
      for (std::size_t i = 0; i < up.size(); ++i) size += std::abs(static_cast<double>(result[i] * other[i]));
      CHECK(std::abs(one - two) <= 2e-5 * size + 1e-6);
    }
  });
}

TEST_CASE("Hessian matrices times vectors are products with the Hessian, and threads change no bit", "[long][linear]") {
  for_all([](const Examples& e) {
    if (e.task.loss.classes > 0 || e.c.width > 1000) return;
    const Floats theta = random_vector(e.task, e.c.width, 1), v = random_vector(e.task, e.c.width, 2);
    for (const InstructionSet set : available_instruction_sets()) {
      const auto passes = linear_passes_for(set, 1);
      const Floats expected = product(*passes, e, theta, v), matrix = hessian(*passes, e, theta);
      const std::vector<double> result = symmetric_times(matrix, v);
      double largest = 1e-6, worst = 0;
      for (std::size_t i = 0; i < v.size(); ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(expected[i])));
        worst = std::max(worst, std::abs(static_cast<double>(expected[i]) - result[i]));
      }
      CHECK(worst <= 2e-5 * largest);  // sums of at most 3000 terms in another order
      for (const int threads : {2, 3, 5}) CHECK(same(hessian(*linear_passes_for(set, threads), e, theta), matrix));
      for (std::size_t i = 0; i < v.size(); ++i) {
        for (std::size_t j = i + 1; j < v.size(); ++j) REQUIRE((e.task.sparse ? matrix[i * v.size() + j] : 0) == 0);
      }
    }
  });
}

TEST_CASE("the curvature of the squared hinge is 2 inside the margin and 0 outside", "[linear]") {
  const Floats x = {0.5F, 2.0F}, targets = {1, 1}, v = {1.0F}, theta = {1.0F};  // yz = ½ and 2
  for (const InstructionSet set : available_instruction_sets()) {
    Floats result(1);
    linear_passes_for(set, 1)->hessian_product(
        {.values = x.data(), .count = 2, .features = 1, .targets = targets.data()},
        {.margin = MarginLoss::squared_hinge}, 1, {theta.data(), nullptr}, {v.data(), nullptr},
        {result.data(), nullptr});
    CHECK(result[0] == 2 * 0.5F * 0.5F);
  }
}

TEST_CASE("passes of linear models count hits, and a NaN or an infinity is seen in the loss", "[linear]") {
  const Floats x = {1, -1, 1, -1}, targets = {1, 1, 0, 0};
  for (const InstructionSet set : available_instruction_sets()) {
    const auto run = [&](float w, MarginLoss loss) {
      LossSums sums;
      Floats g(1);
      linear_passes_for(set, 1)->gradient({.values = x.data(), .count = 4, .features = 1, .targets = targets.data()},
                                          {.margin = loss}, 1, {&w, nullptr}, {g.data(), nullptr}, sums);
      return sums;
    };
    CHECK(run(1, MarginLoss::logistic).correct == 2);
    CHECK(run(0, MarginLoss::logistic).loss == Approx(4 * std::log(2)).epsilon(1e-8));
    CHECK(run(0, MarginLoss::logistic).correct == 2);  // a score of 0 is of the first class
    CHECK(run(1000, MarginLoss::logistic).loss == Approx(2000));
    const float infinity = std::numeric_limits<float>::infinity();
    for (const MarginLoss loss :
         {MarginLoss::logistic, MarginLoss::hinge, MarginLoss::squared_hinge, MarginLoss::squared}) {
      CHECK(run(infinity, loss).loss == infinity);
      CHECK(std::isnan(run(std::nanf(""), loss).loss));
    }
  }
}

}  // namespace unisono::kernels::cpu
