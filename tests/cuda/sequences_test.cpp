// Kernels of sequences on the device against what their definitions give in double.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "support/reference_sequences.hpp"
#include "unisono/base/random.hpp"
#include "unisono/kernels/cuda.hpp"
#include "unisono/kernels/sequence_kernels.hpp"

namespace unisono {
namespace {

using kernels::Precision;
using kernels::Write;
using reference::Values;

/// Numbers of eight bits of mantissa, as bfloat16 holds them, in [low, high).
std::vector<float> short_numbers(Index count, std::uint64_t stream, float low = -1, float high = 1) {
  RandomStream random(17, Purpose::test, stream);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) {
    int exponent = 0;
    const float mantissa = std::frexp(random.uniform(low, high), &exponent);
    number = std::ldexp(std::round(std::ldexp(mantissa, 8)), exponent - 8);
  }
  return numbers;
}

Values wide(const std::vector<float>& numbers) { return {numbers.begin(), numbers.end()}; }

/// Rows [first, first + count) of `size` values.
template <typename T>
std::span<const T> rows_of(const std::vector<T>& values, Index size, Index first, Index count) {
  return std::span(values).subspan(static_cast<std::size_t>(first * size), static_cast<std::size_t>(count * size));
}

/// What errors a result may have.
struct Errors {
  double terms = 1;         ///< roundings of floats that add up in it, at most
  bool activations = true;  ///< it is stored as such; else as floats
  bool twice = false;       ///< it also follows from a rounded activation
  double scale = 0;         ///< of what is added up, where all may cancel out
};

/// A backend, and vectors in its memory. New memory is full of NaN: what nobody writes shows.
class OnDevice {
 public:
  explicit OnDevice(Precision precision = Precision::fp32)
      : precision_(precision), backend_(kernels::make_cuda_backend(0, precision)), kernels_(*backend_) {}

  kernels::Backend& backend() { return *backend_; }
  kernels::SequenceKernels& kernels() { return kernels_; }

  Buffer floats(const std::vector<float>& values) {
    Buffer buffer(std::ssize(values), backend_->memory());
    backend_->memory().copy(values, buffer.view());
    return buffer;
  }
  Buffer activations(Index size, Index rows) {
    Buffer buffer(backend_->activation_size({size}, rows), backend_->memory());
    forget(buffer);
    return buffer;
  }
  Buffer activations(Index size, const std::vector<float>& values) {
    const Index rows = std::ssize(values) / size;
    Buffer buffer = activations(size, rows);
    backend_->load({size}, rows, values, buffer.view());
    backend_->submit();
    return buffer;
  }
  void forget(Buffer& buffer) {
    const std::vector<float> nan(static_cast<std::size_t>(buffer.size()), std::numeric_limits<float>::quiet_NaN());
    backend_->memory().copy(nan, buffer.view());
  }
  std::vector<float> values(const Buffer& buffer) {
    std::vector<float> values(static_cast<std::size_t>(buffer.size()));
    backend_->memory().copy(buffer.view(), values);
    return values;
  }
  std::vector<float> values(Index size, Index rows, const Buffer& buffer) {
    std::vector<float> values(static_cast<std::size_t>(size * rows));
    backend_->store({size}, rows, buffer.view(), values);
    return values;
  }

  /// n roundings to floats of numbers up to the largest result leave four deviations of √(n/6) 2⁻²⁴ of it (as in
  /// tests/nn/cpu_room_test.cpp); a result in bfloat16 has half a unit of its last of eight bits, too, and where that
  /// is done twice, as much of the largest.
  void check_close(const Values& expected, const std::vector<float>& got, const Errors& errors) const {
    REQUIRE(expected.size() == got.size());
    double largest = errors.scale;
    for (const double value : expected) largest = std::max(largest, std::abs(value));
    const double sums = 4 * std::sqrt(errors.terms / 6 + 1) * 0x1p-24 * largest;
    const double stored = precision_ == Precision::bf16 && errors.activations ? 0x1p-8 : 0;
    double worst = 0;  // of what is allowed
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double error = std::abs(static_cast<double>(got[i]) - expected[i]);
      const double allowed = sums + (errors.twice ? stored * largest : 0) + stored * std::abs(expected[i]) * 1.001;
      if (!(error <= allowed)) worst = std::max(worst, std::isfinite(error) ? error / allowed : 1e300);
    }
    CHECK(worst == 0);
  }

 private:
  Precision precision_;
  std::unique_ptr<kernels::Backend> backend_;
  kernels::SequenceKernels& kernels_;
};

/// Calls `act` as often as it takes for the queue to use both of its areas and a recorded graph; each time must give
/// the same bits.
template <typename Act>
auto always(Act act, int times = 4) {
  const auto first = act();
  for (int time = 1; time < times; ++time) REQUIRE(act() == first);
  return first;
}

// --- Attention -------------------------------------------------------------------------------------------------------

struct AttentionCase {
  kernels::AttentionSpec spec;
  Index batch = 1;
  float dropout = 0;
  Precision precision = Precision::fp32;

  Index rows() const { return batch * spec.rows; }
  kernels::DropoutKey key() const { return {.seed = 5, .epoch = 3, .layer = 2, .rate = dropout}; }
  std::vector<std::uint64_t> examples() const {
    std::vector<std::uint64_t> numbers;
    for (Index b = 0; b < batch; ++b) numbers.push_back((std::uint64_t{5} << 33) + static_cast<std::uint64_t>(7 * b));
    return numbers;
  }
  /// Of the exponent of a probability, the sum of D products of up to √D each, and of a sum of T products.
  double terms() const { return 32 + 2 * static_cast<double>(spec.width) + static_cast<double>(spec.rows); }
  std::string text() const {
    return fmt::format("{} sequences of {} rows, {} / {} heads of {}, causal {}, rotary {}, dropout {}, {}", batch,
                       spec.rows, spec.heads, spec.key_heads, spec.width, spec.causal, spec.rotary, dropout,
                       kernels::name_of(precision));
  }
};

std::vector<AttentionCase> attention_cases() {
  return {{{.rows = 1}},
          {{.rows = 70, .heads = 2, .key_heads = 2, .width = 4}, 2},
          {{.rows = 129, .heads = 2, .key_heads = 1, .width = 6, .rotary = 10000}},
          {{.rows = 67, .heads = 4, .key_heads = 2, .width = 10, .causal = false, .rotary = 100}},
          {{.rows = 65, .heads = 4, .key_heads = 2, .width = 8, .rotary = 10000}, 2, 0.25F},
          {{.rows = 6, .heads = 3, .key_heads = 1, .width = 4, .causal = false}, 3, 0.5F},
          {{.rows = 5, .heads = 3, .key_heads = 3, .width = 33}, 2},
          {{.rows = 66, .width = 100, .causal = false, .rotary = 10000}},
          {{.rows = 20, .heads = 2, .key_heads = 1, .width = 256, .rotary = 500}},
          {{.rows = 70, .heads = 4, .key_heads = 1, .width = 16, .rotary = 10000}, 2, 0.125F, Precision::bf16}};
}

/// Everything that attention gives.
struct AttentionResult {
  std::vector<float> y, log_sums, dx;
  bool operator==(const AttentionResult&) const = default;
};

std::vector<float> attention_inputs(const AttentionCase& c) { return short_numbers(c.rows() * c.spec.in().size(), 1); }
std::vector<float> attention_gradients(const AttentionCase& c) {
  return short_numbers(c.rows() * c.spec.out().size(), 2);
}

AttentionResult attention_result(const AttentionCase& c, const std::vector<float>& inputs) {
  OnDevice device(c.precision);
  const kernels::AttentionSpec& spec = c.spec;
  const Index in = spec.in().size(), out = spec.out().size(), n = c.rows();
  const Buffer x = device.activations(in, inputs), dy = device.activations(out, attention_gradients(c));
  Buffer y = device.activations(out, n), log_sums = device.activations(spec.heads, n), dx = device.activations(in, n);
  return always([&]() -> AttentionResult {
    device.forget(dx);
    const auto examples = c.examples();
    device.kernels().attention_forward(spec, c.batch, x.view(), c.key(), examples, y.view(), log_sums.view());
    device.kernels().attention_backward(spec, c.batch, x.view(), y.view(), log_sums.view(), c.key(), examples,
                                        dy.view(), dx.view());
    device.backend().submit();
    const bool fp32 = c.precision == Precision::fp32;
    return {device.values(out, n, y), fp32 ? device.values(spec.heads, n, log_sums) : std::vector<float>(),
            device.values(in, n, dx)};
  });
}

template <typename T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

TEST_CASE("attention on the device is that of its definition", "[gpu][sequences]") {
  for (const AttentionCase& c : attention_cases()) {
    INFO(c.text());
    const Values x = wide(attention_inputs(c)), dy = wide(attention_gradients(c));
    Values y, log_sums, dx;
    for (Index b = 0; b < c.batch; ++b) {
      const auto example = c.examples()[static_cast<std::size_t>(b)];
      const reference::Attention attention(c.spec, rows_of(x, c.spec.rows * c.spec.in().size(), b, 1), c.key(),
                                           example);
      append(y, attention.forward());
      append(log_sums, attention.log_sums());
      append(dx, attention.backward(rows_of(dy, c.spec.rows * c.spec.out().size(), b, 1)));
    }
    const AttentionResult got = attention_result(c, attention_inputs(c));
    const OnDevice device(c.precision);
    device.check_close(y, got.y, {.terms = c.terms()});
    if (c.precision == Precision::fp32) device.check_close(log_sums, got.log_sums, {.terms = c.terms()});
    device.check_close(dx, got.dx, {.terms = 2 * c.terms(), .twice = true});
  }
}

TEST_CASE("rows of causal attention do not depend on later rows, bit for bit", "[gpu][sequences]") {
  AttentionCase c{{.rows = 100, .heads = 2, .key_heads = 1, .width = 6, .rotary = 10000}, 2, 0.125F};
  const std::vector<float> inputs = attention_inputs(c);
  const AttentionResult before = attention_result(c, inputs);
  for (const Index changed : {30, 64, 99}) {
    std::vector<float> other = inputs;
    const Index in = c.spec.in().size(), row = c.spec.rows + changed;  // of the second sequence
    for (Index i = row * in; i < (row + 1) * in; ++i) other[static_cast<std::size_t>(i)] += 1;
    const AttentionResult after = attention_result(c, other);
    const auto same_rows = [&](const std::vector<float>& a, const std::vector<float>& b, Index size) {
      return std::equal(a.begin(), a.begin() + row * size, b.begin());
    };
    CHECK(same_rows(before.y, after.y, c.spec.out().size()));
    CHECK(same_rows(before.log_sums, after.log_sums, c.spec.heads));
    CHECK(before.y != after.y);
  }
}

TEST_CASE("attention of a sequence does not depend on the others, bit for bit", "[gpu][sequences]") {
  const AttentionCase three{{.rows = 70, .heads = 2, .key_heads = 1, .width = 6}, 3, 0.25F};
  AttentionCase one = three;
  one.batch = 1;
  const AttentionResult all = attention_result(three, attention_inputs(three));
  const std::vector<float> inputs = attention_inputs(three);
  const auto first = rows_of(inputs, one.rows() * one.spec.in().size(), 0, 1);
  const AttentionResult alone = attention_result(one, {first.begin(), first.end()});
  CHECK(std::equal(alone.y.begin(), alone.y.end(), all.y.begin()));
  CHECK(std::equal(alone.dx.begin(), alone.dx.end(), all.dx.begin()));
}

TEST_CASE("log sums that were not kept are computed again, to the same bits", "[gpu][sequences]") {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const AttentionCase c{{.rows = 70, .heads = 2, .key_heads = 1, .width = 6, .rotary = 100}, 2, 0.25F, precision};
    OnDevice device(precision);
    const Index in = c.spec.in().size(), out = c.spec.out().size(), n = c.rows();
    const Buffer x = device.activations(in, attention_inputs(c)), dy = device.activations(out, attention_gradients(c));
    Buffer y = device.activations(out, n), dx = device.activations(in, n);
    Buffer log_sums = device.floats(std::vector<float>(static_cast<std::size_t>(n * c.spec.heads)));
    const auto examples = c.examples();
    const auto gradient = [&](MutableView kept) {
      device.forget(dx);
      device.kernels().attention_forward(c.spec, c.batch, x.view(), c.key(), examples, y.view(), kept);
      device.backend().submit();
      device.kernels().attention_backward(c.spec, c.batch, x.view(), y.view(), kept, c.key(), examples, dy.view(),
                                          dx.view());
      device.backend().submit();
      return device.values(in, n, dx);
    };
    CHECK(gradient(log_sums.view()) == gradient({}));
  }
}

TEST_CASE("heads of more values than there are kernels for are refused", "[gpu][sequences]") {
  OnDevice device;
  const kernels::AttentionSpec spec{.width = 258};
  Buffer x = device.activations(3 * 258, 1), y = device.activations(258, 1);
  CHECK_THROWS_WITH(device.kernels().attention_forward(spec, 1, x.view(), {}, {}, y.view(), {}),
                    "attention has no CUDA kernel for heads of more than 256 values: take more heads, or the CPU");
}

// --- Tokens ----------------------------------------------------------------------------------------------------------

struct EmbeddingCase {
  kernels::EmbeddingSpec spec;
  Index batch = 1;
  bool learned = false;
  Precision precision = Precision::fp32;

  Index rows() const { return batch * spec.rows; }
  std::vector<std::int32_t> tokens() const {
    RandomStream random(3, Purpose::test);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(rows()));
    const auto few = static_cast<std::uint64_t>(std::min<Index>(spec.vocabulary, 3));
    for (std::int32_t& token : tokens) {  // some tokens are frequent
      const bool frequent = random.below(2) == 0;
      token = static_cast<std::int32_t>(random.below(frequent ? few : static_cast<std::uint64_t>(spec.vocabulary)));
    }
    for (std::size_t row = 3; row < tokens.size(); row += 5) {  // no tokens
      tokens[row] = row % 2 == 0 ? kernels::kPaddingToken : static_cast<std::int32_t>(spec.vocabulary + 2);
    }
    return tokens;
  }
  bool has(Index token) const { return token >= 0 && token < spec.vocabulary; }
};

std::vector<EmbeddingCase> embedding_cases() {
  return {{{}},
          {{.vocabulary = 11, .units = 5, .rows = 7}, 3},
          {{.vocabulary = 600, .units = 6, .rows = 90, .sinusoidal = true}, 3},
          {{.vocabulary = 20, .units = 300, .rows = 9}, 2, true},
          {{.vocabulary = 70000, .units = 2, .rows = 5}, 3, true, Precision::bf16}};
}

Values embedded(const EmbeddingCase& c, const std::vector<float>& w, const std::vector<float>& positions) {
  Values y;
  const std::vector<std::int32_t> tokens = c.tokens();
  for (Index row = 0; row < c.rows(); ++row) {
    for (Index i = 0; i < c.spec.units; ++i) {
      const Index t = row % c.spec.rows, token = tokens[static_cast<std::size_t>(row)];
      double value = c.has(token) ? static_cast<double>(w[static_cast<std::size_t>(token * c.spec.units + i)]) : 0;
      if (c.learned) value += static_cast<double>(positions[static_cast<std::size_t>(t * c.spec.units + i)]);
      if (c.spec.sinusoidal) value += reference::sinusoid(t, i, c.spec.units);
      y.push_back(value);
    }
  }
  return y;
}

TEST_CASE("vectors of tokens are those of their rows and positions", "[gpu][sequences]") {
  for (const EmbeddingCase& c : embedding_cases()) {
    INFO(c.spec.vocabulary << " tokens, " << c.spec.units << " units, " << c.spec.rows << " rows");
    OnDevice device(c.precision);
    const auto w = short_numbers(c.spec.vocabulary * c.spec.units, 3);
    const auto positions = short_numbers(c.learned ? c.spec.rows * c.spec.units : 0, 4);
    const Buffer w_there = device.floats(w), positions_there = device.floats(positions);
    Buffer x = device.activations(1, c.rows()), y = device.activations(c.spec.units, c.rows());
    const auto tokens = c.tokens();
    const auto got = always([&] {
      device.kernels().load_tokens(tokens, x.view());
      device.backend().submit();
      device.kernels().embedding_forward(c.spec, c.batch, x.view(), w_there.view(), positions_there.view(), y.view());
      device.backend().submit();
      return device.values(c.spec.units, c.rows(), y);
    });
    device.check_close(embedded(c, w, positions), got, {.terms = 2});
  }
}

TEST_CASE("gradients of tokens are sums in the order of the rows, bit for bit", "[gpu][sequences]") {
  for (const EmbeddingCase& c : embedding_cases()) {
    for (const Write write : {Write::overwrite, Write::add}) {
      OnDevice device(c.precision);
      const Index units = c.spec.units;
      const auto dy = short_numbers(c.rows() * units, 5);
      const auto dw_before = short_numbers(c.spec.vocabulary * units, 6);
      const auto dp_before = short_numbers(c.learned ? c.spec.rows * units : 0, 7);
      const auto begin = [&](const std::vector<float>& before) {
        return write == Write::add ? before : std::vector<float>(before.size());
      };
      std::vector<float> dw = begin(dw_before), dp = begin(dp_before);
      const std::vector<std::int32_t> tokens = c.tokens();
      for (Index row = 0; row < c.rows(); ++row) {
        for (Index i = 0; i < units; ++i) {
          const float gradient = dy[static_cast<std::size_t>(row * units + i)];
          const Index token = tokens[static_cast<std::size_t>(row)];
          if (c.has(token)) dw[static_cast<std::size_t>(token * units + i)] += gradient;
          if (c.learned) dp[static_cast<std::size_t>(row % c.spec.rows * units + i)] += gradient;
        }
      }
      Buffer x = device.activations(1, c.rows());
      device.kernels().load_tokens(tokens, x.view());
      device.backend().submit();
      const Buffer dy_there = device.activations(units, dy);
      Buffer dw_there = device.floats(dw_before), dp_there = device.floats(dp_before);
      const auto got = always([&] {
        device.backend().memory().copy(dw_before, dw_there.view());
        device.backend().memory().copy(dp_before, dp_there.view());
        device.kernels().embedding_backward(c.spec, c.batch, x.view(), dy_there.view(), dw_there.view(),
                                            dp_there.view(), write);
        device.backend().submit();
        return std::pair(device.values(dw_there), device.values(dp_there));
      });
      CHECK(got.first == dw);
      CHECK(got.second == dp);
    }
  }
}

// --- One row for each sequence ---------------------------------------------------------------------------------------

TEST_CASE("sequences on the device are pooled from their real rows", "[gpu][sequences]") {
  constexpr Index kBatch = 4;
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    for (const auto kind : {kernels::SequencePool::last, kernels::SequencePool::mean}) {
      for (const auto& lengths : {std::vector<std::int32_t>{7, 1, 4, 6}, std::vector<std::int32_t>{}}) {
        const kernels::SequencePoolSpec spec{.kind = kind, .units = 5, .rows = 7};
        const Index in = spec.rows * spec.units;
        OnDevice device(precision);
        const auto x = short_numbers(kBatch * in, 11), dy = short_numbers(kBatch * spec.units, 12);
        const Values wide_x = wide(x), wide_dy = wide(dy);
        Values y, dx;
        for (Index b = 0; b < kBatch; ++b) {
          const Index length = lengths.empty() ? spec.rows : lengths[static_cast<std::size_t>(b)];
          append(y, reference::sequence_pool(spec, rows_of(wide_x, in, b, 1), length));
          append(dx, reference::sequence_pool_backward(spec, rows_of(wide_dy, spec.units, b, 1), length));
        }
        const Buffer x_there = device.activations(spec.units, x), dy_there = device.activations(spec.units, dy);
        Buffer y_there = device.activations(spec.units, kBatch), dx_there = device.activations(spec.units, kBatch * 7);
        const auto got = always([&] {
          device.forget(dx_there);
          device.kernels().sequence_pool_forward(spec, kBatch, x_there.view(), lengths, y_there.view());
          device.kernels().sequence_pool_backward(spec, kBatch, lengths, dy_there.view(), dx_there.view());
          device.backend().submit();
          return std::pair(device.values(spec.units, kBatch, y_there),
                           device.values(spec.units, kBatch * spec.rows, dx_there));
        });
        device.check_close(y, got.first, {.terms = static_cast<double>(spec.rows)});
        device.check_close(dx, got.second, {.terms = 1});
      }
    }
  }
}

// --- The head --------------------------------------------------------------------------------------------------------

struct HeadCase {
  kernels::HeadSpec spec;
  Index rows = 1;
  Write write = Write::overwrite;
  Precision precision = Precision::fp32;

  std::vector<std::int32_t> labels() const {
    std::vector<std::int32_t> labels;
    for (Index i = 0; i < rows; ++i) {
      labels.push_back(i % 4 == 2 ? -1 : static_cast<std::int32_t>(7 * i % spec.vocabulary));
    }
    return labels;
  }
};

/// Losses and gradients of a head.
void check_head(const HeadCase& c, int times = 4) {
  constexpr float kScale = 0.25F;
  OnDevice device(c.precision);
  const auto x = short_numbers(c.rows * c.spec.units, 8), w = short_numbers(c.spec.vocabulary * c.spec.units, 9);
  const auto dw_before = short_numbers(std::ssize(w), 10);
  const std::vector<std::int32_t> labels = c.labels();
  const Buffer x_there = device.activations(c.spec.units, x), w_there = device.floats(w);
  Buffer dx = device.activations(c.spec.units, c.rows), dw = device.floats(dw_before);
  const kernels::HeadInputs inputs{c.rows, x_there.view(), w_there.view(), labels};
  kernels::LossSums sums;
  const auto got = always(
      [&] {
        device.forget(dx);
        device.backend().memory().copy(dw_before, dw.view());
        sums = {};
        device.backend().begin_pass(w_there.view());
        device.kernels().head_loss(c.spec, inputs, {kScale, dx.view(), dw.view(), c.write}, nullptr, sums);
        device.backend().submit();
        device.backend().collect(sums);
        return std::tuple(device.values(c.spec.units, c.rows, dx), device.values(dw), sums.loss);
      },
      times);
  kernels::LossSums evaluated;
  device.backend().begin_pass(w_there.view());
  device.kernels().head_loss(c.spec, inputs, {.scale = kScale, .write = c.write}, nullptr, evaluated);
  device.backend().submit();
  device.backend().collect(evaluated);
  CHECK(evaluated.loss == sums.loss);

  auto expected = reference::head_loss(c.spec, wide(x), wide(w), labels);
  for (double& value : expected.dx) value *= static_cast<double>(kScale);
  for (std::size_t i = 0; i < expected.dw.size(); ++i) {
    expected.dw[i] *= static_cast<double>(kScale);
    if (c.write == Write::add) expected.dw[i] += static_cast<double>(dw_before[i]);
  }
  const double terms = 32 + 2 * static_cast<double>(c.spec.units);
  const auto rows = static_cast<double>(c.rows);
  device.check_close(expected.dx, std::get<0>(got),
                     {.terms = terms + static_cast<double>(c.spec.vocabulary), .twice = true, .scale = kScale});
  device.check_close(expected.dw, std::get<1>(got),
                     {.terms = terms + rows, .activations = true, .twice = true, .scale = kScale});
  device.check_close({expected.loss}, {static_cast<float>(sums.loss)}, {.terms = terms, .scale = 1});
  CHECK(sums.examples == expected.rows);
  if (c.precision == Precision::fp32) {
    CHECK(sums.correct == expected.correct);
    CHECK(sums.correct_top5 == expected.correct_top5);
  }
}

TEST_CASE("a head's losses and gradients are those of its logits", "[gpu][sequences]") {
  const auto c = GENERATE(values<HeadCase>({{{.units = 1, .vocabulary = 1}, 1},
                                            {{.units = 5, .vocabulary = 7}, 3},
                                            {{.units = 24, .vocabulary = 300, .smoothing = 0.125F}, 50},
                                            {{.units = 9, .vocabulary = 1000}, 30, Write::add},
                                            {{.units = 16, .vocabulary = 64}, 40, Write::add, Precision::bf16}}));
  INFO(c.spec.units << " units, " << c.spec.vocabulary << " tokens, " << c.rows << " rows");
  check_head(c);
}

TEST_CASE("a head with more logits than exist at a time adds up its parts", "[gpu][sequences]") {
  check_head({{.units = 1, .vocabulary = (Index{1} << 20) + 1}, 17}, 1);  // 16 rows, and 1
}

TEST_CASE("a head of no rows has no gradient", "[gpu][sequences]") {
  OnDevice device;
  Buffer dw = device.floats({1, 2, 3, 4, 5, 6});
  const Buffer w = device.floats(std::vector<float>(6));
  kernels::LossSums sums;
  const kernels::HeadSpec spec{.units = 2, .vocabulary = 3};
  const kernels::HeadInputs inputs{.w = w.view()};
  device.kernels().head_loss(spec, inputs, {.scale = 1, .dw = dw.view(), .write = Write::add}, nullptr, sums);
  device.backend().submit();
  CHECK(device.values(dw) == std::vector<float>{1, 2, 3, 4, 5, 6});
  device.kernels().head_loss(spec, inputs, {.scale = 1, .dw = dw.view()}, nullptr, sums);
  device.backend().submit();
  CHECK(device.values(dw) == std::vector<float>(6));
}

// --- Norms and gates -------------------------------------------------------------------------------------------------

TEST_CASE("norms by root mean squares are those of each row", "[gpu][sequences]") {
  const auto precision = GENERATE(Precision::fp32, Precision::bf16);
  const auto shape = GENERATE(values<std::pair<Index, Index>>({{1, 1}, {1, 9}, {7, 5}, {300, 5}, {33, 1}, {40, 70}}));
  const Index size = shape.first, rows = shape.second;
  const auto write = GENERATE(Write::overwrite, Write::add);
  OnDevice device(precision);
  const kernels::NormSpec spec{{size}, 1e-3};
  const auto x = short_numbers(rows * size, 11), gamma = short_numbers(size, 12, 0.5F, 1.5F),
             dy = short_numbers(rows * size, 13), dgamma_before = short_numbers(size, 14);
  const Buffer x_there = device.activations(size, x), gamma_there = device.floats(gamma),
               dy_there = device.activations(size, dy);
  Buffer y = device.activations(size, rows), dx = device.activations(size, rows), dgamma = device.floats(dgamma_before);
  const auto got = always([&] {
    device.backend().memory().copy(dgamma_before, dgamma.view());
    device.kernels().rms_norm_forward(spec, rows, x_there.view(), gamma_there.view(), y.view());
    device.kernels().rms_norm_backward(spec, rows, x_there.view(), gamma_there.view(), dy_there.view(), {},
                                       dgamma.view(), write);
    device.kernels().rms_norm_backward(spec, rows, x_there.view(), gamma_there.view(), dy_there.view(), dx.view(), {},
                                       write);
    device.backend().submit();
    return std::tuple(device.values(size, rows, y), device.values(size, rows, dx), device.values(dgamma));
  });
  Values expected_dgamma = write == Write::add ? wide(dgamma_before) : Values(gamma.size());
  const Values expected_dx = reference::rms_norm_backward(wide(x), wide(gamma), 1e-3, wide(dy), expected_dgamma);
  device.check_close(reference::rms_norm(wide(x), wide(gamma), 1e-3), std::get<0>(got), {.terms = 4});
  device.check_close(expected_dx, std::get<1>(got), {.terms = 16, .scale = 1});
  device.check_close(expected_dgamma, std::get<2>(got),
                     {.terms = 4 * static_cast<double>(rows), .activations = false, .scale = 1});
}

TEST_CASE("gates are products with SiLUs", "[gpu][sequences]") {
  const auto precision = GENERATE(Precision::fp32, Precision::bf16);
  const auto units = GENERATE(Index{1}, Index{6}, Index{16});
  constexpr Index kRowsOfGates = 37;
  OnDevice device(precision);
  const auto x = short_numbers(kRowsOfGates * 2 * units, 15, -4, 4), dy = short_numbers(kRowsOfGates * units, 16);
  const Buffer x_there = device.activations(2 * units, x), dy_there = device.activations(units, dy);
  Buffer y = device.activations(units, kRowsOfGates), dx = device.activations(2 * units, kRowsOfGates);
  device.kernels().gate_forward(units, kRowsOfGates, x_there.view(), y.view());
  device.kernels().gate_backward(units, kRowsOfGates, x_there.view(), dy_there.view(), dx.view());
  device.backend().submit();
  const auto width = static_cast<std::size_t>(units);
  device.check_close(reference::gate(wide(x), width), device.values(units, kRowsOfGates, y), {.terms = 24});
  device.check_close(reference::gate_backward(wide(x), width, wide(dy)), device.values(2 * units, kRowsOfGates, dx),
                     {.terms = 24});
}

}  // namespace
}  // namespace unisono
