#include <numeric>

#include "cpu_fixture.hpp"
#include "reference_sequences.hpp"

namespace unisono::kernels::cpu {
namespace {

/// Sequences of tokens, some of which occur several times.
struct EmbeddingCase {
  EmbeddingSpec spec;
  Index batch;
  std::vector<std::int32_t> tokens;
  Floats w, positions, dy, dw, dpositions;  ///< dw, dpositions: what they hold before

  EmbeddingCase(const EmbeddingSpec& spec_, Index batch_)
      : spec(spec_),
        batch(batch_),
        w(random_floats(spec.vocabulary * spec.units, 71)),
        positions(random_floats(spec.rows * spec.units, 72)),
        dy(random_floats(shape().size(), 73)),
        dw(random_floats(spec.vocabulary * spec.units, 74)),
        dpositions(random_floats(spec.rows * spec.units, 75)) {
    for (Index i = 0; i < shape().batch; ++i) {
      const bool is_known = i % 5 != 3;
      tokens.push_back(is_known ? static_cast<std::int32_t>(i * i * 31 % spec.vocabulary) : unknown(i));
    }
  }
  Shape shape() const { return {spec.out(), batch * spec.rows}; }
  /// A number of no token.
  std::int32_t unknown(Index i) const {
    return i % 2 == 0 ? kPaddingToken : static_cast<std::int32_t>(spec.vocabulary + i);
  }
  /// W[token] of a row; −0 where the token is none.
  float weight(Index row, Index c) const {
    const std::int32_t token = tokens[static_cast<std::size_t>(row)];
    return token >= 0 && token < spec.vocabulary ? w[at(token, c)] : -0.0F;
  }
  std::size_t at(Index row, Index c) const { return static_cast<std::size_t>(row * spec.units + c); }
};

Buffer tokens_of(CpuBackend& backend, const EmbeddingCase& c) {
  Buffer tokens = fresh(backend, {{1, 1, 1}, c.shape().batch});
  backend.load_tokens(c.tokens, tokens.view());
  return tokens;
}

Floats embed(CpuBackend& backend, const EmbeddingCase& c, View positions) {
  const Buffer tokens = tokens_of(backend, c);
  Buffer y = fresh(backend, c.shape());
  backend.embedding_forward(c.spec, c.batch, tokens.view(), c.w, positions, y.view());
  CHECK(std::isfinite(largest_unused(backend, c.shape(), y.view())));
  return from_device(backend, c.shape(), y);
}

/// dW and dP.
Outputs differentiate(CpuBackend& backend, const EmbeddingCase& c, Write write) {
  const Buffer tokens = tokens_of(backend, c), dy = to_device(backend, c.shape(), c.dy);
  Floats dw = c.dw, dpositions = c.dpositions, alone = c.dw;
  backend.embedding_backward(c.spec, c.batch, tokens.view(), dy.view(), dw, dpositions, write);
  backend.embedding_backward(c.spec, c.batch, tokens.view(), dy.view(), alone, {}, write);
  CHECK(alone == dw);
  return {{dw, dpositions}, {}};
}

/// Sums in the order of the rows.
Outputs expected_gradients(const EmbeddingCase& c, Write write) {
  Floats dw = c.dw, dpositions = c.dpositions;
  Floats weights(dw.size()), positions(dpositions.size());  // sums, which are added at the end
  for (Index row = 0; row < c.shape().batch; ++row) {
    for (Index unit = 0; unit < c.spec.units; ++unit) {
      const std::int32_t token = c.tokens[static_cast<std::size_t>(row)];
      if (token >= 0 && token < c.spec.vocabulary) weights[c.at(token, unit)] += c.dy[c.at(row, unit)];
      positions[c.at(row % c.spec.rows, unit)] += c.dy[c.at(row, unit)];
    }
  }
  const auto give = [&](const Floats& sums, Floats& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = sums[i] + (write == Write::add ? to[i] : 0.0F);
  };
  give(weights, dw);
  give(positions, dpositions);
  return {{dw, dpositions}, {}};
}

template <typename Work>
void for_each_case(const Work& work) {
  for (const auto& [batch, rows] : {std::pair<Index, Index>{0, 4}, {1, 1}, {2, 4}, {3, 50}, {2, 64}, {13, 10}}) {
    for (Index units : {1, 5, 32, 70}) {
      const EmbeddingCase c({.vocabulary = 11, .units = units, .rows = rows}, batch);
      INFO(batch << " × " << rows << " × " << units);
      work(c);
    }
  }
}

}  // namespace

TEST_CASE("an embedding is the token's vector and the position's", "[embedding]") {
  for_each_case([](const EmbeddingCase& c) {
    Floats plain, positioned;
    for (Index row = 0; row < c.shape().batch; ++row) {
      for (Index unit = 0; unit < c.spec.units; ++unit) {
        plain.push_back(c.weight(row, unit));
        positioned.push_back(plain.back() + c.positions[c.at(row % c.spec.rows, unit)]);
      }
    }
    everywhere(
        [&](CpuBackend& backend) {
          return Outputs{{embed(backend, c, {}), embed(backend, c, c.positions)}, {}};
        },
        [&](const Outputs& outputs) {
          CHECK(same_bits({{outputs.tensors[0]}, {}}, {{plain}, {}}));
          CHECK(outputs.tensors[1] == positioned);
        });
  });
}

TEST_CASE("positions may be sinusoids", "[embedding]") {
  EmbeddingCase c({.vocabulary = 7, .units = 9, .rows = 100, .sinusoidal = true}, 2);
  std::vector<double> expected;
  for (Index row = 0; row < c.shape().batch; ++row) {
    for (Index unit = 0; unit < c.spec.units; ++unit) {
      expected.push_back(static_cast<double>(c.weight(row, unit)) +
                         reference::sinusoid(row % c.spec.rows, unit, c.spec.units));
    }
  }
  // The sinusoid is rounded, |·| ≤ 1, and the sum, ≤ 2.
  everywhere(
      [&](CpuBackend& backend) {
        return Outputs{{embed(backend, c, {})}, {}};
      },
      [&](const Outputs& outputs) { CHECK(excess(outputs.tensors[0], expected, 3 * kRoundoff) <= 1); });
}

TEST_CASE("gradients of embeddings are added up in the order of the rows", "[embedding]") {
  for_each_case([](const EmbeddingCase& c) {
    for (Write write : {Write::overwrite, Write::add}) {
      const Outputs expected = expected_gradients(c, write);
      everywhere([&](CpuBackend& backend) { return differentiate(backend, c, write); },
                 [&](const Outputs& outputs) { CHECK(same_bits(outputs, expected)); });
    }
  });
}

}  // namespace unisono::kernels::cpu
