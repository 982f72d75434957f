// Logits computed position by position are those of the whole sequence, and have the loss of the network's training.
#include "unisono/nn/decoder.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "network_trial.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::nn {
namespace {

using kernels::DecodeRow;

constexpr Index kRows = 7, kVocabulary = 11;

LayerSettings block(const std::string& attention, const std::string& rest) {
  return layer("repeat", "times = 2, layers = [{ kind = 'residual', layers = [" + attention +
                             "] }, { kind = 'residual', layers = [" + rest + "] }]");
}

TrialSettings gpt2(const std::string& head) {
  return language_model(
      {layer("embedding", "units = 24"),
       block("{ kind = 'layer_norm' }, { kind = 'attention', heads = 3 }, { kind = 'dropout', rate = 0.1 }",
             "{ kind = 'layer_norm' }, { kind = 'dense', units = 50 }, { kind = 'gelu_tanh' }, { kind = 'dense', units "
             "= 24 }"),
       layer("layer_norm"), layer("unembedding", head)},
      kRows, kVocabulary, 3);
}

TrialSettings llama(const std::string& positions, const std::string& head) {
  return language_model(
      {layer("embedding", "units = 20, positions = '" + positions + "'"),
       block(
           "{ kind = 'rms_norm' }, { kind = 'attention', heads = 4, key_heads = 2, head_units = 6, rotary = true, bias "
           "= false }",
           "{ kind = 'rms_norm' }, { kind = 'swiglu', units = 33 }, { kind = 'dense', units = 20, bias = false }"),
       layer("rms_norm"), layer("unembedding", head)},
      kRows, kVocabulary, 3);
}

std::vector<TrialSettings> models() {
  return {gpt2("tied = true"), gpt2(""), llama("none", ""), llama("none", "tied = true"),
          llama("sinusoidal", "tied = true")};
}

/// All positions of a batch's sequences, one sequence after the other.
std::vector<DecodeRow> all_rows(Index sequences) {
  std::vector<DecodeRow> rows;
  for (Index b = 0; b < sequences; ++b) {
    for (Index t = 0; t < kRows; ++t) rows.push_back({b, t});
  }
  return rows;
}

/// The logits of all positions of a batch [B·T][V], computed in one step.
std::vector<float> at_once(const Trial& trial) {
  Decoder decoder(trial.network, trial.backend, trial.theta.view(), trial.batch);
  std::vector<float> logits(trial.tokens.size() * kVocabulary);
  decoder.decode(all_rows(trial.batch), trial.tokens, logits);
  return logits;
}

/// The same, where the positions come in steps of `together`, and the sequences in each step or one after the other.
std::vector<float> in_steps(const Trial& trial, Index together, bool side_by_side) {
  Decoder decoder(trial.network, trial.backend, trial.theta.view(), trial.batch);
  std::vector<float> logits(trial.tokens.size() * kVocabulary);
  const auto step = [&](const std::vector<DecodeRow>& rows) {
    std::vector<std::int32_t> tokens;
    for (const auto& [b, t] : rows) tokens.push_back(trial.tokens[static_cast<std::size_t>(b * kRows + t)]);
    std::vector<float> made(rows.size() * kVocabulary);
    decoder.decode(rows, tokens, made);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(made.begin() + static_cast<Index>(i) * kVocabulary, kVocabulary,
                  logits.begin() + (rows[i].sequence * kRows + rows[i].position) * kVocabulary);
    }
  };
  const Index groups = side_by_side ? 1 : trial.batch;
  for (Index group = 0; group < groups; ++group) {
    for (Index t = 0; t < kRows; t += together) {
      std::vector<DecodeRow> rows;
      for (Index b = group; b < (side_by_side ? trial.batch : group + 1); ++b) {
        for (Index s = t; s < std::min(t + together, kRows); ++s) rows.push_back({b, s});
      }
      step(rows);
    }
  }
  return logits;
}

/// The mean cross-entropy of the rows that have labels, over all rows, as Trial::evaluate gives it.
double loss_of(const Trial& trial, const std::vector<float>& logits) {
  double loss = 0;
  for (std::size_t i = 0; i < trial.labels.size(); ++i) {
    if (trial.labels[i] < 0) continue;
    double sum = 0;
    const float* const row = logits.data() + i * kVocabulary;
    for (Index v = 0; v < kVocabulary; ++v) sum += std::exp(static_cast<double>(row[v]));
    loss += std::log(sum) - static_cast<double>(row[trial.labels[i]]);
  }
  return loss * static_cast<double>(trial.scale);
}

}  // namespace

TEST_CASE("logits are the same bits, whatever is computed together", "[decoder]") {
  const auto backend = kernels::make_cpu_backend(1), two_threads = kernels::make_cpu_backend(2);
  LocalReducer reducer;
  for (const TrialSettings& settings : models()) {
    const Trial trial(*backend, settings, reducer), other(*two_threads, settings, reducer);
    const std::vector<float> expected = at_once(trial);
    CHECK(at_once(other) == expected);
    for (const Index together : {1, 2, 3, 5}) {
      CHECK(in_steps(trial, together, /*side_by_side=*/true) == expected);
      CHECK(in_steps(trial, together, /*side_by_side=*/false) == expected);
    }
  }
}

// A logit passes some 10 products of at most 50 terms whose relative errors add up: 500 roundings of values that are of
// the logits' size, which is a few units; a loss is a mean of such errors.
TEST_CASE("the loss of the decoder's logits is that of an evaluation", "[decoder]") {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  for (const TrialSettings& settings : models()) {
    Trial trial(*backend, settings, reducer);
    CHECK(loss_of(trial, at_once(trial)) == Approx(trial.evaluate()).epsilon(0).margin(500 * 0x1p-24 * 4));
  }
}

TEST_CASE("a position sees nothing that comes later, and positions can be computed again", "[decoder]") {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  const Trial trial(*backend, gpt2("tied = true"), reducer);
  Decoder decoder(trial.network, trial.backend, trial.theta.view(), 1);
  const std::vector<DecodeRow> rows = all_rows(1);
  std::vector<std::int32_t> tokens(trial.tokens.begin(), trial.tokens.begin() + kRows);
  std::vector<float> first(kRows * kVocabulary), second(first.size());
  decoder.decode(rows, tokens, first);
  tokens.back() = (tokens.back() + 1) % static_cast<std::int32_t>(kVocabulary);
  decoder.decode(rows, tokens, second);
  const auto last = static_cast<Index>(kRows - 1) * kVocabulary;
  CHECK(std::equal(first.begin(), first.begin() + last, second.begin()));
  CHECK_FALSE(std::equal(first.begin() + last, first.end(), second.begin() + last));

  std::vector<float> logits(kVocabulary);
  decoder.decode(std::span(rows).last(2), std::span(tokens).last(2), logits);
  CHECK(std::equal(logits.begin(), logits.end(), second.begin() + last));
}

TEST_CASE("a decoder keeps the keys and values of a sequence", "[decoder]") {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  const Trial whole(*backend, gpt2(""), reducer), grouped_keys(*backend, llama("none", ""), reducer);
  CHECK(Decoder::bytes_of_sequence(whole.network) == 2 * 2 * kRows * 24 * 4);
  CHECK(Decoder::bytes_of_sequence(grouped_keys.network) == 2 * 2 * kRows * 2 * 6 * 4);
}

TEST_CASE("models that make no text are refused", "[decoder]") {
  const auto backend = kernels::make_cpu_backend(1);
  LocalReducer reducer;
  const Trial sees_all(*backend,
                       language_model({layer("embedding", "units = 4"), layer("attention", "heads = 1, causal = false"),
                                       layer("unembedding")},
                                      3, 5),
                       reducer);
  CHECK_THROWS_WITH(Decoder(sees_all.network, *backend, sees_all.theta.view(), 1),
                    Catch::Contains("attention1.heads") && Catch::Contains("causal = false"));
  const Trial table(*backend, {.layers = {dense(2)}, .in = {3}}, reducer);
  CHECK_THROWS_WITH(Decoder(table.network, *backend, table.theta.view(), 1), Catch::Contains("no language model"));
}

}  // namespace unisono::nn
