#include "words/word2vec_model.hpp"

#include <catch2/catch.hpp>

#include "in_place_cases.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::models {
namespace {

constexpr InPlaceStep step_at(double rate) {
  InPlaceStep step{};
  step.rate = rate;
  return step;
}

/// The trials of word2vec, of `sets`.
std::vector<InPlaceTrial> word_trials(const SmallSets& sets) {
  std::vector<InPlaceTrial> trials;
  for (const InPlaceTrial& trial : in_place_trials(sets)) {
    if (trial.settings.kind == "word2vec") trials.push_back(trial);
  }
  return trials;
}

}  // namespace

TEST_CASE("windows are a function of seed, epoch and sentence", "[word2vec]") {
  const SmallSets sets;
  for (const InPlaceTrial& trial : word_trials(sets)) {
    CAPTURE(trial.name);
    TrialModel one(trial, sets), same(trial, sets), other(trial, sets);
    one.update_all(step_at(0.1), 3);
    same.update_all(step_at(0.1), 3);
    other.update_all(step_at(0.1), 4);
    CHECK(one.values() == same.values());
    CHECK(one.values() != other.values());
  }
}

TEST_CASE("the loss of vectors that know nothing is ln 2 a pair", "[word2vec]") {
  // Outputs begin at 0: σ(0) = ½ for all of them.
  const SmallSets sets;
  for (const InPlaceTrial& trial : word_trials(sets)) {
    TrialModel one(trial, sets);
    const kernels::LossSums sums = one.evaluate();
    CHECK(sums.examples > 0);
    CHECK(one.model->metrics(sums).at(0).value == Approx(std::log(2.0)).epsilon(1e-6));
  }
}

TEST_CASE("an evaluation looks at all windows, whatever parts it comes in", "[word2vec]") {
  const SmallSets sets;
  for (const InPlaceTrial& trial : word_trials(sets)) {
    CAPTURE(trial.name);
    TrialModel one(trial, sets);
    const kernels::LossSums trained = one.update_all(step_at(0.1)), whole = one.evaluate();
    CHECK(whole.examples > trained.examples);
    kernels::LossSums parts;
    for (const data::ExampleRange part :
         {data::ExampleRange{0, 1}, data::ExampleRange{1, 37}, data::ExampleRange{37, 60}}) {
      one.model->evaluate(one.batch({&part, 1}), one.state(), parts);
    }
    CHECK(parts.examples == whole.examples);
    CHECK(parts.loss == Approx(whole.loss).epsilon(1e-13));
  }
}

TEST_CASE("word2vec's initial vectors are ±½/D, its outputs 0", "[word2vec]") {
  const SmallSets sets;
  for (const InPlaceTrial& trial : word_trials(sets)) {
    TrialModel one(trial, sets);
    const Block& input = one.model->layout().block("words.input");
    const Block& output = one.model->layout().block("words.output");
    CHECK(input.shape == std::vector<Index>{12, 7});
    CHECK(output.shape ==
          std::vector<Index>{trial.settings.word2vec.output == WordOutput::negative_sampling ? 12 : 11, 7});
    float largest = 0;
    for (const float value : part(View(one.theta.view()), input)) largest = std::max(largest, std::abs(value));
    CHECK(largest <= 0.5F / 7);
    CHECK(largest > 0.4F / 7);
    for (const float value : part(View(one.theta.view()), output)) CHECK(value == 0);
    const auto tables = one.model->vectors({});
    REQUIRE(tables.size() == 1);
    CHECK(tables[0].name == "words");
    CHECK(tables[0].rows == 12);
    CHECK(tables[0].width == 7);
  }
}

TEST_CASE("word2vec without counts can be looked at, not trained", "[word2vec]") {
  const SmallSets sets;
  InPlaceTrial trial = word_trials(sets).front();
  trial.occurrences.clear();
  CHECK_THROWS_AS(TrialModel(trial, sets), DataError);
  CHECK_THROWS_WITH(TrialModel(trial, sets), Catch::Contains("dictionary/counts"));
  nn::ReferenceBackend backend;
  LocalReducer reducer;
  const auto model = make_model(trial.settings, trial.inputs, {.backend = backend, .reducer = reducer});
  CHECK(model->layout().parameters() == 2 * 12 * 7);
}

TEST_CASE("a vocabulary of one word trains nothing, and breaks nothing", "[word2vec]") {
  const SmallSets sets;
  const std::vector<std::int32_t> words(40, 0);
  const std::vector<std::uint64_t> sentences = {0, 1, 1, 40};
  for (InPlaceTrial trial : word_trials(sets)) {
    CAPTURE(trial.name);
    trial.inputs.rows = trial.inputs.columns = 1;
    trial.occurrences = {40};
    trial.set = Text{.words = words, .sentences = sentences};
    TrialModel one(trial, sets);
    kernels::LossSums sums;
    one.update({0, 3}, step_at(0.1), sums);
    for (const float value : one.values()) CHECK(std::isfinite(value));
  }
}

}  // namespace unisono::models
