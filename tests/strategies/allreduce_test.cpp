#include <catch2/catch.hpp>
#include <utility>

#include "../data/support.hpp"
#include "least_squares.hpp"
#include "optimizers.hpp"
#include "rounding.hpp"
#include "small_network.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::strategies {
namespace {

optim::OptimizerSettings momentum_sgd(double rate) {
  return optim::with({.kind = "sgd", .learning_rate = rate}, "momentum = 0.9");
}

/// ε lies far above the rounding of g, so that a gradient of nearly zero is no coin toss.
optim::OptimizerSettings tame_adam() { return optim::with({.kind = "adam", .learning_rate = 0.02}, "epsilon = 1e-3"); }

/// 23 examples in batches of 7: the last step of an epoch has 2 examples, fewer than there may be ranks.
void check_ranks_equal_one(const Examples& examples, Training training) {
  training.ranks = 1;
  const auto serial = train(examples, training);
  const Tolerance tolerance = spread_of_permuted_sums(examples, training);
  const double moved = largest_difference(serial[0].trajectory.front(), serial[0].parameters);
  REQUIRE(tolerance.parameters > 0);
  REQUIRE(tolerance.parameters < 1e-3 * moved);  // what it allows is far from what a wrong run would do
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    training.ranks = ranks;
    const auto parallel = train(examples, training);
    CHECK(ranks_agree(parallel));
    CHECK(largest_difference(parallel[0].parameters, serial[0].parameters) <= tolerance.parameters);
    CHECK(largest_difference(parallel[0].statistics, serial[0].statistics) <= tolerance.statistics);
    CHECK(largest_difference(losses_over_ranks(parallel), losses_over_ranks(serial)) <= tolerance.losses);
  }
}

std::string write_set(const std::string& path, const Examples& images) {
  data::hdf5::File file(path, data::hdf5::File::Mode::create);
  const auto count = static_cast<std::uint64_t>(images.count());
  file.create<float>("train/features", {count, 1, 6, 6});
  file.write_rows("train/features", 0, count, images.features.data());
  file.write("train/labels", std::vector<std::int64_t>(images.labels.begin(), images.labels.end()));
  file.write_attribute("", "classes", std::int64_t{3});
  return path;
}

data::DataSettings augmented(const std::string& path) {
  data::DataSettings settings;
  settings.path = path;
  settings.augmentation.horizontal_flip = true;
  settings.augmentation.crop_padding = 1;
  return settings;
}

/// A source that keeps the set it reads.
class OpenedSet final : public data::BatchSource {
 public:
  OpenedSet(const data::DataSettings& settings, const data::SourceOptions& options)
      : set_(data::open_dataset(settings, options.seed)), source_(set_->train(options)) {}
  data::Batch next() override { return source_->next(); }
  std::int64_t steps_per_epoch() const override { return source_->steps_per_epoch(); }
  std::int64_t examples_per_epoch() const override { return source_->examples_per_epoch(); }
  void seek(const data::DataCursor& cursor) override { source_->seek(cursor); }
  double wait_seconds() const override { return source_->wait_seconds(); }

 private:
  std::unique_ptr<data::Dataset> set_;
  std::unique_ptr<data::BatchSource> source_;
};

}  // namespace

TEST_CASE("one allreduce step is the step on the mean over the whole batch, however uneven the parts", "[allreduce]") {
  // y = w + b with x = 1 and targets 3, 6, −3: at 0 the mean gradient is −2 · (3 + 6 − 3) / 3 = −4 for both, and a step
  // of 1/4 leads to w = b = 1.
  const Examples examples{.shape = {}, .features = {1, 1, 1}, .targets = {3, 6, -3}};
  for (const int ranks : {1, 2, 3, 4}) {
    INFO(ranks << " ranks");
    const auto outcome = train(examples, {.model = least_squares(),
                                          .optimizer = {.kind = "sgd", .learning_rate = 0.25},
                                          .ranks = ranks,
                                          .batch_size = 3});
    // 1/3 and three terms of at most 4 are rounded, and their sums: at most 8 roundings of 4.
    CHECK(outcome[0].parameters[0] == Approx(1).margin(8 * 4 * kUnitRoundoff));
    CHECK(outcome[0].parameters[16] == Approx(1).margin(8 * 4 * kUnitRoundoff));
    CHECK(losses_over_ranks(outcome)[0] == 9 + 36 + 9);
    CHECK(ranks_agree(outcome));
  }
}

TEST_CASE("allreduce on any number of ranks trains a linear model as one rank does", "[allreduce]") {
  const Examples examples = random_examples(23, {.channels = 3}, 0);
  for (const Index accumulate : {1, 2, 3}) {
    Training training{
        .model = least_squares(), .optimizer = momentum_sgd(0.03125), .batch_size = 7, .accumulate = 1, .epochs = 2};
    const auto serial = train(examples, training);
    REQUIRE(serial[0].records.size() == 8);
    const double tolerance = rounding_of(serial[0], training, 3);
    CHECK(tolerance < 1e-3 * largest_difference(serial[0].trajectory.front(), serial[0].parameters));
    training.accumulate = accumulate;
    for (const int ranks : {1, 2, 3, 4}) {
      INFO(ranks << " ranks, " << accumulate << " micro-batches");
      training.ranks = ranks;
      const auto parallel = train(examples, training);
      CHECK(largest_difference(parallel[0].parameters, serial[0].parameters) <= tolerance);
      CHECK(ranks_agree(parallel));
    }
  }
}

TEST_CASE("allreduce on any number of ranks equals one: dropout, global batch norm, uneven batches", "[allreduce]") {
  const Examples examples = small_images();
  Training training{.model = small_network(true), .batch_size = 7, .epochs = 2};
  SECTION("momentum") {
    training.optimizer = momentum_sgd(0.05);
    check_ranks_equal_one(examples, training);
  }
  SECTION("Adam") {
    training.optimizer = tame_adam();
    check_ranks_equal_one(examples, training);
  }
  SECTION("accumulation") {
    training.optimizer = momentum_sgd(0.05);
    training.accumulate = 2;
    check_ranks_equal_one(examples, training);
  }
  SECTION("whole micro-batches") {
    training.optimizer = momentum_sgd(0.05);
    training.micro_batches = GENERATE(2, 4, 5);  // with 2 for 3 ranks each is cut over all
    check_ranks_equal_one(examples, training);
  }
  SECTION("clipping, decay, a schedule, and one bucket") {
    training.optimizer = momentum_sgd(0.05);
    training.optimizer.clip_norm = 0.5;
    training.optimizer.weight_decay = 0.01;
    training.schedule = {.kind = optim::ScheduleKind::cosine, .warmup_epochs = 0.5};
    training.bucket_bytes = 0;
    check_ranks_equal_one(examples, training);
  }
  SECTION("LAMB") {
    training.optimizer = optim::with({.kind = "lamb", .learning_rate = 0.02}, "epsilon = 1e-3");
    check_ranks_equal_one(examples, training);
  }
}

TEST_CASE("running statistics follow all micro-batches of a step in their order, whichever rank has them",
          "[allreduce]") {
  const Examples examples = small_images();
  // Parameters that stay what they are: then nothing is rounded otherwise on more ranks.
  Training training{.model = small_network(true), .batch_size = 7, .micro_batches = 5, .epochs = 2};
  training.optimizer = {.kind = "sgd", .learning_rate = 0};
  const auto serial = train(examples, training);
  for (const int ranks : {2, 3, 4, 5}) {
    INFO(ranks << " ranks");
    training.ranks = ranks;
    for (const Outcome& outcome : train(examples, training)) CHECK(outcome.statistics == serial[0].statistics);
  }
  training.ranks = 1;
  training.accumulate = std::exchange(training.micro_batches, 1);  // on one rank they are the same
  CHECK(train(examples, training)[0].statistics == serial[0].statistics);
}

TEST_CASE("on one rank, micro-batches and accumulation are the same steps; so they are with fewer than ranks",
          "[allreduce]") {
  const Examples examples = small_images();
  for (const int ranks : {1, 3}) {
    Training training{.model = small_network(true), .ranks = ranks, .batch_size = 7, .epochs = 2};
    training.optimizer = momentum_sgd(0.05);
    training.accumulate = 2;
    const auto accumulated = train(examples, training);
    training.micro_batches = std::exchange(training.accumulate, 1);
    const auto outcome = train(examples, training);
    CHECK(outcome[0].parameters == accumulated[0].parameters);
    CHECK(outcome[0].statistics == accumulated[0].statistics);
  }
}

TEST_CASE("allreduce on any number of ranks equals one on a set that is shuffled and augmented", "[allreduce]") {
  const Examples images = small_images();
  const test::TempDir folder;
  const data::DataSettings settings = augmented(write_set(folder / "images.h5", images));
  const auto open = [&](const data::SourceOptions& options) { return std::make_unique<OpenedSet>(settings, options); };

  // The spread of permuted sums is that of the same images without augmentation.
  Training training{.model = small_network(true), .optimizer = momentum_sgd(0.05), .batch_size = 7, .epochs = 2};
  const Tolerance tolerance = spread_of_permuted_sums(images, training);
  training.source = open;
  const auto serial = train(images, training);
  for (const int ranks : {2, 3, 4}) {
    INFO(ranks << " ranks");
    training.ranks = ranks;
    const auto parallel = train(images, training);
    CHECK(ranks_agree(parallel));
    CHECK(largest_difference(parallel[0].parameters, serial[0].parameters) <= tolerance.parameters);
    CHECK(largest_difference(losses_over_ranks(parallel), losses_over_ranks(serial)) <= tolerance.losses);
  }
}

TEST_CASE("local running statistics are averaged by the examples that made them, every step", "[allreduce]") {
  // Rank 0 sees 4, rank 1 sees 1 and 7: their running means after one step are 2 and 2 with weight 1/2 … by hand
  // (1/2 · 4) · 1/3 + (1/2 · 4) · 2/3 = 2; then 8 against 2 and 2: (1 + 4) · 1/3 + (1 + 1) · 2/3 = 3.
  const Examples examples{.shape = {}, .features = {4, 1, 7, 8, 2, 2}, .targets = {0, 0, 0, 0, 0, 0}};
  const auto outcome = train(examples, {.model = least_squares(0.5F),
                                        .optimizer = {.kind = "sgd", .learning_rate = 0},
                                        .ranks = 2,
                                        .batch_size = 3,
                                        .shuffle = false});
  CHECK(outcome[0].statistics[0] == Approx(3).margin(8 * 3 * kUnitRoundoff));  // eight roundings or fewer
  CHECK(ranks_agree(outcome));
}

TEST_CASE("a network with local batch statistics ends as one model on every rank", "[allreduce]") {
  const auto outcome =
      train(small_images(),
            {.model = small_network(true, "local"), .optimizer = momentum_sgd(0.05), .ranks = 3, .batch_size = 12});
  CHECK(ranks_agree(outcome));
}

// The observer reads the gradient of the steps that are due: of all, or of hardly any.
TEST_CASE("steps inside of the backward pass are those of a gradient and an update", "[allreduce]") {
  const auto own = [](Training training) {
    training.epochs = 3;
    training.due_every = 1;
    const auto apart = train(small_images(), training);
    training.due_every = 5;
    const auto at_once = train(small_images(), training);
    for (std::size_t rank = 0; rank < apart.size(); ++rank) {
      CHECK(at_once[rank].trajectory == apart[rank].trajectory);
      CHECK(at_once[rank].losses == apart[rank].losses);
      CHECK(at_once[rank].optimizer_steps == apart[rank].optimizer_steps);
      for (std::size_t i = 0; i < apart[rank].optimizer_state.size(); ++i) {
        CHECK(std::ranges::equal(at_once[rank].optimizer_state[i].values.view(),
                                 apart[rank].optimizer_state[i].values.view()));
      }
      CHECK(std::ranges::all_of(apart[rank].records, &StepRecord::gradient_is_whole));
    }
    return std::ranges::count_if(at_once[0].records,
                                 [](const StepRecord& record) { return !record.gradient_is_whole; });
  };
  const Training plain{.model = small_network(true), .optimizer = momentum_sgd(0.05), .batch_size = 7};
  const auto with = [&](auto change) {
    Training training = plain;
    change(training);
    return training;
  };
  // 12 steps, of which the fifth and the tenth are due.
  CHECK(own(plain) == 10);
  CHECK(own(with([](Training& one) { one.optimizer = tame_adam(); })) == 10);
  CHECK(own(with([](Training& one) {
          one.optimizer = optim::with({.kind = "adamw", .learning_rate = 0.02, .weight_decay = 0.1}, "beta1 = 0.8");
        })) == 10);
  CHECK(own(with([](Training& one) { one.strategy = strategy_of("kind = 'serial'"); })) == 10);
  CHECK(own(with([](Training& one) {
          one.strategy = strategy_of("kind = 'averaging', period = 2");
          one.ranks = 3;
          one.batch_size = 8;  // the last batch of an epoch leaves a rank with two examples
        })) > 0);
  // Not with several micro-batches, norms, other rules, or a reproducible sum.
  CHECK(own(with([](Training& one) { one.micro_batches = 2; })) == 0);
  CHECK(own(with([](Training& one) { one.optimizer.clip_norm = 1; })) == 0);
  CHECK(own(with([](Training& one) { one.optimizer = {.kind = "lamb", .learning_rate = 0.01}; })) == 0);
  CHECK(own(with([](Training& one) { one.optimizer = {.kind = "rmsprop", .learning_rate = 0.01}; })) == 0);
  CHECK(own(with([](Training& one) { one.leaves = 2; })) == 0);
}

TEST_CASE("allreduce reports every step as consistent, and stops when the observer wishes", "[allreduce]") {
  const Examples examples = random_examples(10, {.channels = 2}, 0);
  Training training{.model = least_squares(), .ranks = 2, .batch_size = 4, .epochs = 2};
  const auto whole = train(examples, training);
  REQUIRE(whole[0].records.size() == 6);
  for (std::size_t i = 0; i < 6; ++i) {
    const StepRecord& record = whole[1].records[i];
    CHECK(record.step == static_cast<std::int64_t>(i) + 1);
    CHECK(record.epoch == static_cast<std::int64_t>(i) / 3);
    CHECK(record.last_of_epoch == (i % 3 == 2));
    CHECK(record.global_size == (i % 3 == 2 ? 2 : 4));
    CHECK(record.consistent);
    CHECK(record.learning_rate == training.optimizer.learning_rate);
  }
  training.stop_after = 4;
  const auto stopped = train(examples, training);
  CHECK(stopped[0].records.size() == 4);
  CHECK(stopped[1].parameters == whole[1].trajectory[3]);
}

}  // namespace unisono::strategies
