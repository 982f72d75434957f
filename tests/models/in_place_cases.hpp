#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../nn/reference_backend.hpp"
#include "unisono/base/random.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/models/in_place.hpp"
#include "value_of.hpp"

// A model of each kind that is updated in place, with a small set of its own.

namespace unisono::models {

/// What the sets are views of: 60 rows, ratings, pairs and sentences.
struct SmallSets {
  static constexpr Index kExamples = 60, kFeatures = 20, kWords = 12;

  SmallSets() {
    RandomStream random(4, Purpose::test);
    for (Index i = 0; i < kExamples; ++i) {
      std::uint32_t column = 0;
      for (int k = 0; k < 4; ++k) {
        column += 1 + static_cast<std::uint32_t>(random.below(4));
        columns.push_back(column);
        values.push_back(random.uniform(-1, 1));
      }
      offsets.push_back(columns.size());
      labels.push_back(static_cast<std::int32_t>(random.below(3)));
      classes.push_back(static_cast<float>(labels.back()));
      signs.push_back(static_cast<float>(labels.back() % 2));
      targets.push_back(random.uniform(-1, 1));
      for (Index k = 0; k < kFeatures; ++k) table.push_back(random.uniform(-1, 1));
      ratings.push_back({number(random, 9), number(random, 7), random.uniform(1, 5)});
      pairs.push_back({number(random, kWords), number(random, kWords), random.uniform(0.5F, 120)});
      for (std::uint64_t k = 0; k < 1 + random.below(8); ++k) {
        words.push_back(static_cast<std::int32_t>(number(random, kWords)));
      }
      sentences.push_back(words.size());
    }
  }

  data::LabelledRows rows(const std::vector<float>& of_rows) const {
    return {.rows = {.offsets = offsets, .columns = columns, .values = values, .width = kFeatures}, .targets = of_rows};
  }

  static std::uint32_t number(RandomStream& random, std::uint64_t n) {
    return static_cast<std::uint32_t>(random.below(n));
  }

  std::vector<std::uint64_t> offsets{0}, sentences{0};
  std::vector<std::uint32_t> columns;
  std::vector<float> values, classes, signs, targets, table;
  std::vector<std::int32_t> labels, words;
  std::vector<SparseEntry> ratings, pairs;
};

/// A model with θ, initialised by the seed 7.
struct InPlaceTrial {
  std::string name;
  ModelSettings settings = {};
  ModelInputs inputs = {};
  std::string rule = "sgd";
  data::ExampleSet set = {};
  bool table = false;
  std::vector<std::int64_t> occurrences = {};
};

class TrialModel {
 public:
  explicit TrialModel(const InPlaceTrial& trial, const SmallSets& sets) : trial_(trial), sets_(sets) {
    model = make_model(trial.settings, trial.inputs,
                       {.backend = backend_,
                        .reducer = reducer_,
                        .seed = 3,
                        .update_rule = trial.rule,
                        .occurrences = [this] { return std::span<const std::int64_t>(trial_.occurrences); },
                        .training_examples = SmallSets::kExamples});
    theta = Buffer(model->layout().size());
    model->initialise(7, state());
  }
  TrialModel(const TrialModel&) = delete;

  ModelState state() { return {.parameters = theta.view(), .statistics = {}}; }
  std::vector<float> values() { return {theta.view().begin(), theta.view().end()}; }

  /// A batch of all, in these ranges.
  data::Batch batch(std::span<const data::ExampleRange> ranges, std::int64_t epoch = 0) const {
    data::Batch all;
    for (const data::ExampleRange& range : ranges) all.size += range.size();
    all.rank_step_size = all.global_size = all.size;
    all.epoch = epoch;
    if (!trial_.table) {
      all.set = &trial_.set;
      all.ranges = ranges;
      return all;
    }
    all.features = sets_.table;
    all.labels = sets_.labels;
    all.targets = sets_.targets;
    return all;
  }

  /// Trains on [first, last) of the set.
  void update(data::ExampleRange range, InPlaceStep step, kernels::LossSums& sums, std::int64_t epoch = 0) {
    step.parameters = theta.view();
    const auto scratch = model->in_place()->make_scratch();
    model->in_place()->update_in_place(batch({&kAll, 1}, epoch), range, step, *scratch, sums);
  }
  kernels::LossSums update_all(const InPlaceStep& step, std::int64_t epoch = 0) {
    kernels::LossSums sums;
    update(kAll, step, sums, epoch);
    return sums;
  }
  kernels::LossSums evaluate() {
    kernels::LossSums sums;
    model->evaluate(batch({&kAll, 1}), state(), sums);
    return sums;
  }

  static constexpr data::ExampleRange kAll{0, SmallSets::kExamples};
  std::unique_ptr<Model> model;
  Buffer theta;

 private:
  const InPlaceTrial& trial_;
  const SmallSets& sets_;
  nn::ReferenceBackend backend_;
  LocalReducer reducer_;
};

/// Of `sets`, which outlives them.
inline std::vector<InPlaceTrial> in_place_trials(const SmallSets& sets) {
  std::vector<InPlaceTrial> trials;
  const auto linear = [&](std::string name, std::string loss, bool averaged, const std::vector<float>& targets,
                          bool table) {
    InPlaceTrial& trial = trials.emplace_back();
    trial.name = std::move(name);
    trial.settings.kind = "linear";
    trial.settings.linear = {
        .loss = value_of(loss, kLinearLosses), .l1 = averaged ? 0 : 1e-3, .l2 = 1e-3, .averaged = averaged};
    trial.inputs = {.kind = table ? data::SetKind::table : data::SetKind::sparse,
                    .features = {.channels = SmallSets::kFeatures},
                    .classes = loss == "softmax"   ? 3
                               : loss == "squared" ? 0
                                                   : 2,
                    .target_size = loss == "squared" ? 1 : 0};
    trial.set = sets.rows(targets);
    trial.table = table;
    if (!table) trial.occurrences.assign(SmallSets::kFeatures, 12);
  };
  linear("logistic regression", "logistic", false, sets.signs, false);
  linear("averaged logistic regression", "logistic", true, sets.signs, false);
  linear("a support vector machine", "hinge", false, sets.signs, false);
  linear("softmax regression", "softmax", false, sets.classes, false);
  linear("averaged softmax regression", "softmax", true, sets.classes, false);
  linear("softmax regression of a table", "softmax", false, sets.classes, true);
  linear("least squares of a table", "squared", true, sets.targets, true);
  for (const std::string rule : {"sgd", "adagrad"}) {
    InPlaceTrial& trial = trials.emplace_back();
    trial.name = "factorization by " + rule;
    trial.settings.kind = "factorization";
    trial.settings.factorization.dimension = 5;
    trial.settings.factorization.biases = rule == "adagrad";
    trial.rule = rule;
    trial.inputs = {.kind = data::SetKind::ratings, .rows = 9, .columns = 7, .mean_value = 3};
    trial.set = data::SparseEntries(sets.ratings);
  }
  for (const std::string architecture : {"skip_gram", "cbow"}) {
    for (const std::string output : {"negative_sampling", "hierarchical_softmax"}) {
      InPlaceTrial& trial = trials.emplace_back();
      trial.name = architecture + ", " + output;
      trial.settings.kind = "word2vec";
      trial.settings.word2vec = {.architecture = value_of(architecture, kWordArchitectures),
                                 .output = value_of(output, kWordOutputs),
                                 .dimension = 7,
                                 .subsample = 0.5};
      trial.inputs = {.kind = data::SetKind::text, .rows = SmallSets::kWords, .columns = SmallSets::kWords};
      trial.set = Text{.words = sets.words, .sentences = sets.sentences};
      for (int i = 0; i < SmallSets::kWords; ++i) trial.occurrences.push_back(120 - 9 * i);
    }
  }
  InPlaceTrial& glove = trials.emplace_back();
  glove.name = "GloVe";
  glove.settings.kind = "glove";
  glove.settings.glove.dimension = 7;
  glove.rule = "adagrad";
  glove.inputs = {.kind = data::SetKind::cooccurrences, .rows = SmallSets::kWords, .columns = SmallSets::kWords};
  glove.set = data::SparseEntries(sets.pairs);
  return trials;
}

}  // namespace unisono::models
