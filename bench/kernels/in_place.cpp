// Kernels that update θ in place, on one core: examples (windows, ratings, entries) per second, and flops of the peak
// of multiply-adds or bytes of the triad's. Rows that fit the caches move more bytes than a triad; "far" has them in
// the last cache or in memory. "plain" is the obvious loop, as this file is compiled; options are the fast ones unless
// the name says more.
#include <algorithm>
#include <cmath>
#include <memory>

#include "harness.hpp"
#include "unisono/base/random.hpp"
#include "unisono/kernels/in_place.hpp"

namespace unisono::bench {
namespace {

using Floats = std::vector<float>;

/// Runs over all of a data set's examples once.
using Pass = std::function<void(const kernels::InPlaceKernels&)>;

void add_entry(const std::string& name, Index examples, Work each, const std::function<void()>& pass) {
  const auto entry = [=](benchmark::State& state) {
    for (auto _ : state) pass();
    state.SetItemsProcessed(state.iterations() * examples);
    report(state, static_cast<double>(examples) * each, 1);
  };
  benchmark::RegisterBenchmark(name.c_str(), entry);
}

/// \param each what one example costs
void add_pair(const std::string& name, Index examples, Work each, const Pass& pass,
              const std::function<void()>& plain = {}) {
  const std::shared_ptr<kernels::InPlaceKernels> kernels = kernels::make_in_place_kernels();
  add_entry(name, examples, each, [=] { pass(*kernels); });
  if (plain) add_entry(name + "/plain", examples, each, plain);
}

/// Rows of random floats of some size, in one piece.
struct Rows {
  Buffer values;
  Index stride, width;
  Rows(Index count, Index used, Index ends, float size)
      : values(count * ((used + 15) / 16 * 16 + ends)),
        stride((used + 15) / 16 * 16 + ends),
        width((used + 15) / 16 * 16) {
    RandomStream random(1, Purpose::test, static_cast<std::uint64_t>(count));
    for (Index i = 0; i < count; ++i) {
      std::generate_n(row(i), used, [&] { return random.uniform(-size, size); });
      std::fill_n(row(i) + width, ends, 1.0F);
    }
  }
  float* row(Index i) { return values.data() + i * stride; }
  kernels::RowMatrix view() { return {values.data(), stride, width}; }
};

float plain_sigmoid(float z) { return 1.0F / (1.0F + std::exp(-z)); }

// Words
// -----

constexpr Index kWords = 10, kOutputs = 6, kDimension = 112, kWindows = 2000;
constexpr float kTinyRate = 1e-4F;

/// Windows of words out of so many, and their vectors.
struct Windows {
  std::vector<std::int32_t> context, outputs;
  Floats targets{1, 0, 0, 0, 0, 0};
  Rows x, y;
  kernels::InPlaceSums sums;

  explicit Windows(Index vocabulary) : x(vocabulary, kDimension, 0, 0.1F), y(vocabulary, kDimension, 0, 0.1F) {
    RandomStream random(2, Purpose::test);
    const auto word = [&] { return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary))); };
    for (Index i = 0; i < kWindows * kWords; ++i) context.push_back(word());
    for (Index i = 0; i < kWindows; ++i) {
      const std::int32_t first = word();  // distinct within a window
      for (Index o = 0; o < kOutputs; ++o) {
        outputs.push_back(static_cast<std::int32_t>((first + 7 * o) % static_cast<std::int32_t>(vocabulary)));
      }
    }
  }
  std::span<const std::int32_t> words(Index i) const {
    return {context.data() + i * kWords, static_cast<std::size_t>(kWords)};
  }
  std::span<const std::int32_t> rows(Index i) const {
    return {outputs.data() + i * kOutputs, static_cast<std::size_t>(kOutputs)};
  }
  /// \param ahead whether the next window's rows are prefetched
  kernels::OutputWords wanted(Index i, bool ahead = false) const {
    if (!ahead || i + 1 == kWindows) return {rows(i), targets};
    return {rows(i), targets, words(i + 1), rows(i + 1)};
  }
};

void plain_skip_gram(Windows& w) {
  for (Index i = 0; i < kWindows; ++i) {
    for (const std::int32_t word : w.words(i)) {
      float* const x = w.x.row(word);
      Floats change(kDimension);
      for (std::size_t o = 0; o < kOutputs; ++o) {
        float* const y = w.y.row(w.wanted(i).rows[o]);
        float z = 0;
        for (Index d = 0; d < kDimension; ++d) z += x[d] * y[d];
        const float e = kTinyRate * (w.targets[o] - plain_sigmoid(z));
        for (std::size_t d = 0; d < kDimension; ++d) change[d] += e * y[d];
        for (Index d = 0; d < kDimension; ++d) y[d] += e * x[d];
      }
      for (std::size_t d = 0; d < kDimension; ++d) x[d] += change[d];
    }
  }
}

void plain_cbow(Windows& w) {
  for (Index i = 0; i < kWindows; ++i) {
    Floats h(kDimension), change(kDimension);
    for (const std::int32_t word : w.words(i)) {
      for (std::size_t d = 0; d < kDimension; ++d) h[d] += w.x.row(word)[d] / kWords;
    }
    for (std::size_t o = 0; o < kOutputs; ++o) {
      float* const y = w.y.row(w.wanted(i).rows[o]);
      float z = 0;
      for (std::size_t d = 0; d < kDimension; ++d) z += h[d] * y[d];
      const float e = kTinyRate * (w.targets[o] - plain_sigmoid(z));
      for (std::size_t d = 0; d < kDimension; ++d) change[d] += e * y[d];
      for (std::size_t d = 0; d < kDimension; ++d) y[d] += e * h[d];
    }
    for (const std::int32_t word : w.words(i)) {
      for (std::size_t d = 0; d < kDimension; ++d) w.x.row(word)[d] += change[d];
    }
  }
}

void add_windows(const std::string& name, Index vocabulary, bool ahead) {
  const auto w = std::make_shared<Windows>(vocabulary);
  const auto all = [=](const kernels::InPlaceKernels& kernels, auto kernel) {
    for (Index i = 0; i < kWindows; ++i) {
      (kernels.*kernel)(w->words(i), w->wanted(i, ahead), kTinyRate, w->x.view(), w->y.view(), false, w->sums);
    }
  };
  add_pair(
      "skip_gram/10x6x112/" + name, kWindows, in_flops(6.0 * kWords * kOutputs * kDimension),
      [=](const kernels::InPlaceKernels& kernels) { all(kernels, &kernels::InPlaceKernels::skip_gram); },
      [=] { plain_skip_gram(*w); });
  add_pair(
      "cbow/10x6x112/" + name, kWindows, in_flops((2.0 * kWords + 6.0 * kOutputs) * kDimension),
      [=](const kernels::InPlaceKernels& kernels) { all(kernels, &kernels::InPlaceKernels::cbow); },
      [=] { plain_cbow(*w); });
}

// Entries of a matrix
// -------------------

std::vector<SparseEntry> random_entries(Index count, std::uint64_t rows, std::uint64_t columns) {
  RandomStream random(3, Purpose::test);
  std::vector<SparseEntry> entries(static_cast<std::size_t>(count));
  for (SparseEntry& entry : entries) {
    entry = {static_cast<std::uint32_t>(random.below(rows)), static_cast<std::uint32_t>(random.below(columns)),
             random.uniform(1, 20)};
  }
  return entries;
}

void plain_factorize(const std::vector<SparseEntry>& ratings, Index rank, Rows& users, Rows& items) {
  for (const SparseEntry& rating : ratings) {
    float* const p = users.row(rating.row);
    float* const q = items.row(rating.column);
    float *const h_p = p + users.width + 1, *const h_q = q + items.width + 1;
    float e = rating.value;
    for (Index k = 0; k < rank; ++k) e -= p[k] * q[k];
    const float rate_p = kTinyRate / std::sqrt(*h_p), rate_q = kTinyRate / std::sqrt(*h_q);
    float sum_p = 0, sum_q = 0;
    for (Index k = 0; k < rank; ++k) {
      const float g_p = e * q[k] - 0.02F * p[k], g_q = e * p[k] - 0.02F * q[k];
      p[k] += rate_p * g_p, q[k] += rate_q * g_q;
      sum_p += g_p * g_p, sum_q += g_q * g_q;
    }
    *h_p += sum_p / static_cast<float>(rank), *h_q += sum_q / static_cast<float>(rank);
  }
}

/// 16 K flops a rating, or 12 K without h.
void add_factorize(const std::string& name, Index rank, Index users, Index items) {
  const auto p = std::make_shared<Rows>(users, rank, 16, 0.1F), q = std::make_shared<Rows>(items, rank, 16, 0.1F);
  const Index count = 200000;
  const auto ratings = std::make_shared<std::vector<SparseEntry>>(
      random_entries(count, static_cast<std::uint64_t>(users), static_cast<std::uint64_t>(items)));
  for (int bits = 3; bits >= 0; --bits) {
    const bool adagrad = (bits & 1) != 0, biases = (bits & 2) != 0;
    const kernels::FactorStep step{kTinyRate, 0, 0.02F, 0.02F, adagrad, biases};
    const std::string options = std::string(adagrad ? "/adagrad" : "/sgd") + (biases ? "_biases" : "");
    const auto pass = [=](const kernels::InPlaceKernels& kernels) {
      benchmark::DoNotOptimize(kernels.factorize(*ratings, step, {p->view(), rank}, {q->view(), rank}));
    };
    const std::function<void()> plain = [=] { plain_factorize(*ratings, rank, *p, *q); };
    add_pair("factorize/" + name + options, count, in_flops((adagrad ? 16.0 : 12.0) * static_cast<double>(rank)), pass,
             bits == 1 ? plain : std::function<void()>());
  }
}

void plain_glove(const std::vector<SparseEntry>& entries, Index dimension, Rows& words, Rows& contexts, Index width) {
  for (const SparseEntry& entry : entries) {
    float* const w = words.row(entry.row);
    float* const v = contexts.row(entry.column);
    float d = w[dimension] + v[dimension] - std::log(entry.value);
    for (Index k = 0; k < dimension; ++k) d += w[k] * v[k];
    const float slope = (entry.value < 10 ? std::pow(entry.value / 10, 0.75F) : 1.0F) * d;
    for (Index k = 0; k <= dimension; ++k) {
      const float g_w = k < dimension ? slope * v[k] : slope, g_v = k < dimension ? slope * w[k] : slope;
      w[k] -= kTinyRate * g_w / std::sqrt(w[width + k]), v[k] -= kTinyRate * g_v / std::sqrt(v[width + k]);
      w[width + k] += g_w * g_w, v[width + k] += g_v * g_v;
    }
  }
}

/// 32 bytes read and written for each number of a pair of rows.
void add_glove(const std::string& name, Index words) {
  constexpr Index dimension = 100, width = 112, count = 50000;
  const auto w = std::make_shared<Rows>(words, dimension + 1, width, 0.01F);
  const auto v = std::make_shared<Rows>(words, dimension + 1, width, 0.01F);
  const auto entries = std::make_shared<std::vector<SparseEntry>>(
      random_entries(count, static_cast<std::uint64_t>(words), static_cast<std::uint64_t>(words)));
  const kernels::GloveStep step{kTinyRate, 10, 0.75F};
  add_pair(
      "glove/100/" + name, count, in_bytes(32.0 * width),
      [=](const kernels::InPlaceKernels& kernels) {
        benchmark::DoNotOptimize(kernels.glove(*entries, step, {w->view(), dimension}, {v->view(), dimension}));
      },
      [=] { plain_glove(*entries, dimension, *w, *v, width); });
}

// Linear models
// -------------

/// Sparse rows of about so many values, a quarter to and fro, or just so many where the columns are few.
struct SparseSet {
  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> columns;
  Floats values, targets;
  Index width;

  SparseSet(Index rows, Index columns_count, Index a_row, std::uint64_t classes) : width(columns_count) {
    RandomStream random(4, Purpose::test);
    for (Index i = 0; i < rows; ++i) {
      const Index count = a_row < 20 ? a_row : a_row * 3 / 4 + static_cast<Index>(random.below(a_row / 2));
      for (Index k = 0; k < count; ++k) {  // one of each of so many equal parts of the columns
        const Index low = k * width / count, high = (k + 1) * width / count;
        columns.push_back(static_cast<std::uint32_t>(low + static_cast<Index>(random.below(high - low))));
        values.push_back(random.uniform());
      }
      offsets.push_back(columns.size());
      targets.push_back(static_cast<float>(random.below(classes)));
    }
  }
  SparseRows rows(bool with_values) const { return {offsets, columns, with_values ? View(values) : View(), width}; }
  Index count() const { return static_cast<Index>(targets.size()); }
  double a_row() const { return static_cast<double>(columns.size()) / static_cast<double>(targets.size()); }
};

void plain_linear(const SparseSet& set, Floats& w) {
  float& bias = w.back();
  double loss = 0;
  for (std::size_t i = 0; i < set.targets.size(); ++i) {
    float z = bias;
    for (std::uint64_t k = set.offsets[i]; k < set.offsets[i + 1]; ++k) z += w[set.columns[k]];
    const float move = kTinyRate * (plain_sigmoid(z) - set.targets[i]);
    for (std::uint64_t k = set.offsets[i]; k < set.offsets[i + 1]; ++k) w[set.columns[k]] -= move;
    bias -= move;
    loss += std::log1p(std::exp(-std::abs(z))) + std::fmax(0.0F, z) - set.targets[i] * z;
  }
  benchmark::DoNotOptimize(loss);
}

/// Bytes of a value: its column (and itself), the weight read twice and written once.
void add_linear(const std::string& name, Index rows, Index columns, Index a_row) {
  const auto set = std::make_shared<SparseSet>(rows, columns, a_row, 2);
  const auto w = std::make_shared<Floats>(columns + 1), u = std::make_shared<Floats>(columns + 1);
  const auto spread = std::make_shared<Floats>(columns, 2.0F);
  const auto kept = std::make_shared<Floats>(set->columns.size());
  const auto bits = std::make_shared<std::vector<kernels::RowBits>>(static_cast<std::size_t>(rows));
  const auto pass = [=](bool values, bool penalties, bool averaged, Index mini_batch = 1) {
    return [=](const kernels::InPlaceKernels& kernels) {
      kernels::LinearStep step{.rate = kTinyRate, .mini_batch = mini_batch};
      if (penalties) step.l2 = 1e-7F, step.spread = spread->data();
      if (penalties && kernels.keeps_spreads(columns)) step.value_spread = kept->data();
      if (mini_batch > 1 && !values && kernels.keeps_bits(columns, set->a_row())) step.row_bits = bits->data();
      kernels::LinearWeights weights{w->data(), &w->back()};
      if (averaged) weights.weight_sums = u->data(), weights.bias_sum = &u->back();
      benchmark::DoNotOptimize(
          kernels.linear(set->rows(values), set->targets, 0, rows, kernels::MarginLoss::logistic, step, weights));
    };
  };
  const Work ones = in_bytes(16 * set->a_row());
  add_pair("logistic/" + name, rows, ones, pass(false, false, false), [=] { plain_linear(*set, *w); });
  add_pair("logistic_values/" + name, rows, in_bytes(20 * set->a_row()), pass(true, false, false));
  add_pair("logistic_penalties/" + name, rows, in_bytes(20 * set->a_row()), pass(false, true, false));
  add_pair("logistic_averaged/" + name, rows, in_bytes(24 * set->a_row()), pass(false, false, true));
  add_pair("logistic_batches/" + name, rows, ones, pass(false, false, false, 64));
  add_pair("logistic_penalties_batches/" + name, rows, in_bytes(20 * set->a_row()), pass(false, true, false, 64));
}

void plain_softmax(const Floats& x, const SparseSet& labels, Index features, Rows& w) {
  constexpr std::size_t classes = 10;
  for (std::size_t i = 0; i < labels.targets.size(); ++i) {
    const float* const row = x.data() + static_cast<Index>(i) * features;
    float z[classes] = {}, sum = 0;
    for (Index j = 0; j < features; ++j) {
      for (std::size_t k = 0; k < classes; ++k) z[k] += row[j] * w.row(j)[k];
    }
    for (float& margin : z) sum += margin = std::exp(margin);
    for (float& margin : z) margin *= kTinyRate / sum;
    z[static_cast<std::size_t>(labels.targets[i])] -= kTinyRate;
    for (Index j = 0; j < features; ++j) {
      for (std::size_t k = 0; k < classes; ++k) w.row(j)[k] -= row[j] * z[k];
    }
  }
}

void add_dense(Index rows, Index features) {
  const auto set = std::make_shared<SparseSet>(rows, features, 1, 10);  // for its labels
  const auto x = std::make_shared<Floats>(rows * features, 0.5F), w = std::make_shared<Floats>(features);
  const auto matrix = std::make_shared<Rows>(features, 10, 0, 0.01F);
  const std::string shape = std::to_string(features);
  add_pair("logistic_dense/" + shape, rows, in_flops(4.0 * static_cast<double>(features)),
           [=](const kernels::InPlaceKernels& kernels) {
             const kernels::LinearWeights weights{.weights = w->data()};
             benchmark::DoNotOptimize(kernels.linear(*x, set->targets, rows, features, kernels::MarginLoss::logistic,
                                                     {.rate = kTinyRate}, weights));
           });
  add_pair(
      "softmax_dense/" + shape + "x10", rows, in_flops(40.0 * static_cast<double>(features)),
      [=](const kernels::InPlaceKernels& kernels) {
        const kernels::SoftmaxWeights weights{.weights = matrix->view(), .classes = 10};
        benchmark::DoNotOptimize(kernels.softmax(*x, set->targets, rows, features, {.rate = kTinyRate}, weights));
      },
      [=] { plain_softmax(*x, *set, features, *matrix); });
}

void add_softmax(Index rows, Index features, Index a_row) {
  const auto set = std::make_shared<SparseSet>(rows, features, a_row, 10);
  const auto matrix = std::make_shared<Rows>(features, 10, 0, 0.01F);
  const auto pass = [=](const kernels::InPlaceKernels& kernels) {
    const kernels::SoftmaxWeights weights{.weights = matrix->view(), .classes = 10};
    benchmark::DoNotOptimize(kernels.softmax(set->rows(true), set->targets, 0, rows, {.rate = kTinyRate}, weights));
  };
  add_pair("softmax/" + std::to_string(a_row) + "of" + std::to_string(features) + "x10", rows,
           in_flops(40.0 * set->a_row()), pass);
}

const bool registered = [] {
  add_windows("near", 500, /*ahead=*/false);
  add_windows("far", 68000, /*ahead=*/true);
  add_factorize("32", 32, 1000, 1000);
  add_factorize("100", 100, 500, 500);
  add_glove("near", 500);
  add_glove("far", 68000);
  add_linear("14of123", 32561, 123, 14);  // as the set a9a
  add_linear("75of1M", 5000, 1000000, 75);
  add_dense(1000, 28);
  add_dense(1000, 784);
  add_softmax(5000, 47236, 75);
  return true;
}();

}  // namespace
}  // namespace unisono::bench
