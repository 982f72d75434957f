#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "training.hpp"
#include "unisono/base/random.hpp"
#include "unisono/data/dataset.hpp"
#include "value_of.hpp"

// Small sets that are no tables, in memory, for models that are updated in place.

namespace unisono::strategies {

/// Batches of ranges of a set, in its order: what data's own source does, without shuffling.
class RangesInMemory final : public data::BatchSource {
 public:
  RangesInMemory(const data::ExampleSet& set, std::int64_t units, std::int64_t examples,
                 const data::SourceOptions& options)
      : set_(set), units_(units), examples_(examples), options_(options) {}

  data::Batch next() override {
    const comm::Slice own = comm::slice_of(last() - first(), options_.rank, options_.size);
    ranges_.clear();
    for (std::int64_t i = first() + own.first; i < first() + own.last; i += kPiece) {
      ranges_.push_back({i, std::min<std::int64_t>(i + kPiece, first() + own.last)});
    }
    data::Batch batch;
    batch.size = batch.rank_step_size = own.last - own.first;
    batch.global_size = batch.micro_batch_size = last() - first();
    batch.epoch = cursor_.epoch;
    batch.epoch_examples_before = first();
    batch.last_of_epoch = cursor_.step + 1 == steps_per_epoch();
    batch.set = &set_;
    batch.ranges = ranges_;
    cursor_ = batch.last_of_epoch ? data::DataCursor{cursor_.epoch + 1, 0}
                                  : data::DataCursor{cursor_.epoch, cursor_.step + 1};
    return batch;
  }
  std::int64_t steps_per_epoch() const override { return (units_ + options_.batch_size - 1) / options_.batch_size; }
  std::int64_t examples_per_epoch() const override { return examples_; }
  void seek(const data::DataCursor& cursor) override { cursor_ = cursor; }
  double wait_seconds() const override { return 0; }

 private:
  static constexpr std::int64_t kPiece = 5;
  std::int64_t first() const { return cursor_.step * options_.batch_size; }
  std::int64_t last() const { return std::min<std::int64_t>(first() + options_.batch_size, units_); }

  const data::ExampleSet& set_;
  std::int64_t units_, examples_;
  data::SourceOptions options_;
  data::DataCursor cursor_;
  std::vector<data::ExampleRange> ranges_;
};

/// A model of each kind with a set of its own.
struct InPlaceCase {
  std::string name;
  models::ModelSettings model{};
  optim::OptimizerSettings optimizer{};
  models::ModelInputs inputs{};
  data::ExampleSet set{};
  std::int64_t units = 0, examples = 0;
  std::vector<std::int64_t> occurrences{};

  /// The training refers to the case and must not outlive it.
  Training training(const StrategySettings&) const&& = delete;
  Training training(const StrategySettings& strategy) const& {
    return {.model = [this](const models::ModelInputs& in,
                            const models::ModelContext& context) { return models::make_model(model, in, context); },
            .strategy = strategy,
            .optimizer = optimizer,
            .batch_size = 17,
            .epochs = 2,
            .source =
                [this](const data::SourceOptions& options) {
                  return std::make_unique<RangesInMemory>(set, units, examples, options);
                },
            .inputs = inputs,
            .occurrences = [this] { return std::span<const std::int64_t>(occurrences); }};
  }
};

/// What the cases' sets are views of.
struct InPlaceMemory {
  std::vector<std::uint64_t> offsets{0}, sentences{0};
  std::vector<std::uint32_t> columns;
  std::vector<float> values, targets;
  std::vector<SparseEntry> ratings, counts;
  std::vector<std::int32_t> words;
};

inline InPlaceMemory draw_memory() {
  InPlaceMemory memory;
  RandomStream random(4, Purpose::test);
  for (int row = 0; row < 100; ++row) {
    std::uint32_t column = 0;
    for (int k = 0; k < 6; ++k) {
      column += 1 + static_cast<std::uint32_t>(random.below(6));
      memory.columns.push_back(column);
      memory.values.push_back(random.uniform(-1, 1));
    }
    memory.offsets.push_back(memory.columns.size());
    memory.targets.push_back(static_cast<float>(random.below(2)));
    memory.ratings.push_back({static_cast<std::uint32_t>(random.below(20)),
                              static_cast<std::uint32_t>(random.below(15)), random.uniform(1, 5)});
    memory.counts.push_back({static_cast<std::uint32_t>(random.below(12)), static_cast<std::uint32_t>(random.below(12)),
                             random.uniform(0.5F, 120)});
    const std::uint64_t topic = random.below(4);  // of three words: words tell what is beside them
    for (int k = 0; k < 9; ++k) memory.words.push_back(static_cast<std::int32_t>(topic + 4 * random.below(3)));
    memory.sentences.push_back(memory.words.size());
  }
  return memory;
}

/// Of `memory`, which outlives them.
inline std::vector<InPlaceCase> in_place_cases(const InPlaceMemory& memory) {
  std::vector<InPlaceCase> cases;
  const auto add = [&](std::string name, std::string kind, std::string rule, double rate) -> InPlaceCase& {
    InPlaceCase& one = cases.emplace_back();
    one.name = std::move(name);
    one.model.kind = std::move(kind);
    one.optimizer.kind = std::move(rule);
    one.optimizer.learning_rate = rate;
    one.units = one.examples = 100;
    return one;
  };
  for (const std::string name : {"logistic regression", "averaged logistic regression", "mini-batches"}) {
    const bool averaged = name == "averaged logistic regression";
    auto& linear = add(name, "linear", "sgd", 0.25);
    linear.model.linear.averaged = averaged;
    linear.model.linear.mini_batch = name == "mini-batches" ? 4 : 1;
    linear.model.linear.l2 = 1e-3;
    linear.model.linear.l1 = averaged ? 1e-3 : 0;
    linear.inputs = {.kind = data::SetKind::sparse, .features = {.channels = 40}, .classes = 2};
    linear.set = data::LabelledRows{
        .rows = {.offsets = memory.offsets, .columns = memory.columns, .values = memory.values, .width = 40},
        .targets = memory.targets};
    linear.occurrences.assign(40, 15);
  }
  for (const std::string rule : {"sgd", "adagrad"}) {
    auto& factors = add("factorization by " + rule, "factorization", rule, 0.05);
    factors.model.factorization.dimension = 5;
    factors.inputs = {.kind = data::SetKind::ratings, .rows = 20, .columns = 15, .mean_value = 3};
    factors.set = data::SparseEntries(memory.ratings);
  }
  for (const std::string architecture : {"skip_gram", "cbow"}) {
    for (const std::string output : {"negative_sampling", "hierarchical_softmax"}) {
      auto& words = add(architecture + " with " + output, "word2vec", "sgd", architecture == "cbow" ? 0.1 : 0.025);
      words.model.word2vec.architecture = value_of(architecture, models::kWordArchitectures);
      words.model.word2vec.output = value_of(output, models::kWordOutputs);
      words.model.word2vec.dimension = 7;
      words.model.word2vec.subsample = 0.2;
      words.inputs = {.kind = data::SetKind::text, .rows = 12, .columns = 12};
      words.set = Text{.words = memory.words, .sentences = memory.sentences};
      words.examples = 900;
      for (int i = 0; i < 12; ++i) words.occurrences.push_back(120 - 9 * i);
    }
  }
  auto& glove = add("GloVe", "glove", "adagrad", 0.05);
  glove.model.glove.dimension = 7;
  glove.inputs = {.kind = data::SetKind::cooccurrences, .rows = 12, .columns = 12};
  glove.set = data::SparseEntries(memory.counts);
  return cases;
}

}  // namespace unisono::strategies
