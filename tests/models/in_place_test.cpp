#include "unisono/models/in_place.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <thread>

#include "in_place_cases.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::models {
namespace {

const InPlaceStep kStep{.rate = 0.0625, .parameters = {}};

template <typename Check>
void for_each_trial(const Check& check) {
  const SmallSets sets;
  for (const InPlaceTrial& trial : in_place_trials(sets)) {
    INFO(trial.name);
    TrialModel model(trial, sets);
    REQUIRE(model.model->in_place() != nullptr);
    check(model, trial, sets);
  }
}

/// Which floats of θ belong to a block.
std::vector<bool> in_use(const ParameterLayout& layout) {
  std::vector<bool> used(static_cast<std::size_t>(layout.size()));
  for (const Block& block : layout.blocks()) {
    const Index rows = block.stride == 0 ? 1 : block.shape[0],
                width = block.stride == 0 ? block.size() : block.row_size();
    for (Index row = 0; row < rows; ++row) {
      for (Index i = 0; i < width; ++i) used[static_cast<std::size_t>(block.offset + row * block.stride + i)] = true;
    }
  }
  return used;
}

double mean_loss(const kernels::LossSums& sums) { return sums.loss / static_cast<double>(sums.examples); }

}  // namespace

TEST_CASE("rows that were touched are counted until they are forgotten", "[in_place]") {
  TouchedRows touched({{.name = "a", .rows = 3}, {.name = "b", .rows = 2}});
  touched.mark(0, 2);
  touched.mark(1, 0);
  touched.mark(1, 0);
  CHECK_FALSE(touched.is_touched(0, 0));
  CHECK(touched.is_touched(0, 2));
  CHECK(touched.is_touched(1, 0));
  CHECK_FALSE(touched.is_touched(1, 1));
  CHECK(touched.count(0, 2) == 1);
  CHECK(touched.count(1, 0) == 2);
  touched.forget(0, 2);
  CHECK_FALSE(touched.is_touched(0, 2));
  CHECK(touched.is_touched(1, 0));
  for (int i = 0; i < 300; ++i) touched.mark(1, 0);
  CHECK(touched.count(1, 0) == 302);
}

TEST_CASE("training piece by piece is training on all at once, bit for bit", "[in_place]") {
  for_each_trial([](TrialModel& whole, const InPlaceTrial& trial, const SmallSets& sets) {
    TrialModel parts(trial, sets);
    const kernels::LossSums all = whole.update_all(kStep);
    kernels::LossSums sums;
    for (const data::ExampleRange piece :
         {data::ExampleRange{0, 1}, data::ExampleRange{1, 1}, data::ExampleRange{1, 40}, data::ExampleRange{40, 60}}) {
      InPlaceStep step = kStep;
      step.examples_before = piece.first;
      parts.update(piece, step, sums);
    }
    CHECK(parts.values() == whole.values());
    if (trial.settings.kind == "word2vec") return;  // its losses are those of some windows
    CHECK(sums.examples == SmallSets::kExamples);
    CHECK(sums.examples == all.examples);
    CHECK(sums.loss == Approx(all.loss).epsilon(1e-14));
  });
}

TEST_CASE("with locks a thread computes what it computes without, and leaves them all open", "[in_place]") {
  for_each_trial([](TrialModel& plain, const InPlaceTrial& trial, const SmallSets& sets) {
    const kernels::LossSums sums = plain.update_all(kStep);
    for (const int stripes : {1, 3, 4096}) {
      TrialModel locked(trial, sets);
      RowLocks locks(stripes);
      InPlaceStep step = kStep;
      step.locks = &locks;
      const kernels::LossSums others = locked.update_all(step);
      CHECK(locked.values() == plain.values());
      CHECK(others.loss == Approx(sums.loss).epsilon(1e-14));
      CHECK(others.examples == sums.examples);
      RowLocks::Set rows;
      for (Index row = 0; row < stripes; ++row) rows.add(locks, 0, row);
      const auto guard = locks.lock(rows);  // would wait forever
    }
  });
}

TEST_CASE("what changes is in a row that is said to be touched, or belongs to no row", "[in_place]") {
  for_each_trial([](TrialModel& trained, const InPlaceTrial&, const SmallSets&) {
    const std::vector<RowSpace> spaces = trained.model->in_place()->row_spaces();
    TouchedRows touched(spaces);
    const std::vector<float> before = trained.values();
    InPlaceStep step = kStep;
    step.touched = &touched;
    kernels::LossSums sums;
    trained.update({3, 6}, step, sums);
    const std::vector<float> after = trained.values();

    std::vector<int> owners(before.size());
    for (std::size_t space = 0; space < spaces.size(); ++space) {
      const RowSpace& rows = spaces[space];
      REQUIRE(rows.offset + rows.rows * rows.stride <= static_cast<Index>(before.size()));
      for (Index row = 0; row < rows.rows; ++row) {
        const auto first = static_cast<std::size_t>(rows.offset + row * rows.stride),
                   stride = static_cast<std::size_t>(rows.stride);
        const bool same = std::equal(before.begin() + static_cast<std::ptrdiff_t>(first),
                                     before.begin() + static_cast<std::ptrdiff_t>(first + stride),
                                     after.begin() + static_cast<std::ptrdiff_t>(first));
        if (!touched.is_touched(space, row)) CHECK(same);
        for (std::size_t i = first; i < first + stride; ++i) ++owners[i];
      }
    }
    CHECK(std::count_if(owners.begin(), owners.end(), [](int n) { return n > 1; }) == 0);
    CHECK(before != after);

    // Of the blocks with more than a few numbers, every row is some space's.
    for (const Block& block : trained.model->layout().blocks()) {
      if (block.shape[0] < 7) continue;
      const Index stride = block.stride == 0 ? 1 : block.stride;
      for (Index row = 0; row < block.shape[0]; ++row) {
        CHECK(owners[static_cast<std::size_t>(block.offset + row * stride)] == 1);
      }
    }
  });
}

TEST_CASE("an evaluation changes nothing", "[in_place]") {
  for_each_trial([](TrialModel& trained, const InPlaceTrial& trial, const SmallSets&) {
    trained.update_all(kStep);
    const std::vector<float> before = trained.values();
    const kernels::LossSums first = trained.evaluate(), second = trained.evaluate();
    CHECK(std::memcmp(before.data(), trained.theta.data(), before.size() * sizeof(float)) == 0);
    CHECK(first.loss == second.loss);
    CHECK(std::isfinite(first.loss));
    if (trial.settings.kind != "word2vec") CHECK(first.examples == SmallSets::kExamples);
    CHECK(first.examples > 0);
  });
}

TEST_CASE("an evaluation tells the loss that a training step tells at rate 0", "[in_place]") {
  for_each_trial([](TrialModel& trained, const InPlaceTrial& trial, const SmallSets&) {
    if (trial.settings.linear.averaged && trial.settings.kind == "linear") return;  // which evaluates the mean
    if (trial.settings.kind == "word2vec") return;  // which trains on more windows than it looks at
    trained.update_all(kStep);
    const kernels::LossSums evaluated = trained.evaluate(), stepped = trained.update_all({.rate = 0, .parameters = {}});
    CHECK(evaluated.examples == stepped.examples);
    CHECK(evaluated.correct == stepped.correct);
    // Each loss is off by some twenty roundings of numbers below 8.
    CHECK(evaluated.loss == Approx(stepped.loss).margin(20 * 8 * 0x1p-24 * static_cast<double>(stepped.examples)));
    CHECK(evaluated.squared_error == Approx(stepped.squared_error).epsilon(1e-5));
    CHECK(evaluated.absolute_error == Approx(stepped.absolute_error).epsilon(1e-5));
  });
}

TEST_CASE("what fills up rows and blocks stays 0", "[in_place]") {
  for_each_trial([](TrialModel& trained, const InPlaceTrial&, const SmallSets&) {
    const std::vector<bool> used = in_use(trained.model->layout());
    for (int pass = 0; pass < 2; ++pass) {
      const std::vector<float> values = trained.values();
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!used[i]) CHECK(values[i] == 0);
      }
      trained.update_all(kStep);
    }
  });
}

TEST_CASE("training makes the loss smaller", "[in_place]") {
  for_each_trial([](TrialModel& trained, const InPlaceTrial&, const SmallSets&) {
    const double before = mean_loss(trained.evaluate());
    for (std::int64_t epoch = 0; epoch < 40; ++epoch) {
      InPlaceStep step = kStep;
      step.examples_before = epoch * SmallSets::kExamples;
      trained.update_all(step, epoch);
    }
    CHECK(mean_loss(trained.evaluate()) < 0.97 * before);
  });
}

TEST_CASE("a meter counts the rows that examples touch, and with one thread no conflict", "[in_place]") {
  for_each_trial([](TrialModel& metered, const InPlaceTrial& trial, const SmallSets& sets) {
    TrialModel plain(trial, sets);
    plain.update_all(kStep);
    ConflictMeter meter(metered.model->in_place()->row_spaces(), 2);
    InPlaceStep step = kStep;
    step.meter = &meter;
    step.thread = 1;
    metered.update_all(step);
    CHECK(metered.values() == plain.values());
    CHECK(meter.touched() >= SmallSets::kExamples);
    CHECK(meter.conflicts() == 0);
  });
}

TEST_CASE("a row is in conflict while another thread's example that touched it goes on", "[in_place]") {
  ConflictMeter meter({{.name = "a", .rows = 3}, {.name = "b", .rows = 3}}, 2);
  meter.begin(0);
  meter.touch(0, 0, 1);
  meter.begin(1);
  meter.touch(1, 0, 2);
  meter.touch(1, 1, 1);
  CHECK(meter.conflicts() == 0);
  meter.touch(1, 0, 1);  // thread 0 is still at it
  CHECK(meter.conflicts() == 1);
  meter.begin(1);
  meter.touch(0, 0, 2);  // thread 1 has gone on
  CHECK(meter.conflicts() == 1);
  CHECK(meter.touched() == 5);
}

TEST_CASE("threads train one model together, locked or not", "[in_place][threads]") {
  for_each_trial([](TrialModel&, const InPlaceTrial& trial, const SmallSets& sets) {
    for (const int stripes : {0, 1, 4096}) {
      TrialModel shared(trial, sets);
      const double before = mean_loss(shared.evaluate());
      std::unique_ptr<RowLocks> locks;
      if (stripes > 0) locks = std::make_unique<RowLocks>(stripes);
      std::vector<kernels::LossSums> sums(4);
      std::vector<std::thread> threads;
      for (int number = 0; number < 4; ++number) {
        threads.emplace_back([&, number] {
          for (int pass = 0; pass < 40; ++pass) {  // the threads begin at different examples
            InPlaceStep step = kStep;
            step.locks = locks.get();
            step.examples_before = 60 * pass;
            const int piece = (number + pass) % 4;
            shared.update({15 * piece, 15 * (piece + 1)}, step, sums[static_cast<std::size_t>(number)]);
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      const auto values = shared.values();
      CHECK(std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); }));
      // Where one thread has come far before another begins, they do not agree on the place of an update in the mean.
      if (!trial.settings.linear.averaged) CHECK(mean_loss(shared.evaluate()) < before);
    }
  });
}

TEST_CASE("initial values are a function of the seed", "[in_place]") {
  for_each_trial([](TrialModel& one, const InPlaceTrial& trial, const SmallSets& sets) {
    TrialModel two(trial, sets);
    CHECK(one.values() == two.values());
    two.model->initialise(8, two.state());
    CHECK((one.values() == two.values()) == (trial.settings.kind == "linear"));  // which begins at 0
    std::fill(two.theta.view().begin(), two.theta.view().end(), 5.0F);
    two.model->initialise(7, two.state());
    CHECK(one.values() == two.values());
  });
}

TEST_CASE("a model's parts make up its parameters", "[in_place]") {
  for_each_trial([](TrialModel& one, const InPlaceTrial&, const SmallSets&) {
    Index summed = 0, parameters = 0;
    for (const LayerSummary& row : one.model->summary(10)) summed += row.parameters;
    for (const Block& block : one.model->layout().blocks()) parameters += block.role == Role::state ? 0 : block.size();
    CHECK(summed == parameters);
    CHECK(one.model->layout().parameters() == parameters);
    CHECK(one.model->flops_per_example() > 0);
    CHECK(one.model->statistics_layout().size() == 0);
    for (const VectorTable& table : one.model->vectors(one.theta.view())) {
      for (const VectorTable::Component& part : table.parts) {
        CHECK(part.offset + (table.rows - 1) * part.stride + table.width <= one.model->layout().size());
      }
    }
  });
}

TEST_CASE("models without gradients of batches say that the strategy needs them", "[in_place]") {
  for_each_trial([](TrialModel& one, const InPlaceTrial& trial, const SmallSets&) {
    if (trial.settings.kind == "linear" && !trial.settings.linear.averaged) return one.model->require_gradient();
    Buffer gradient(one.model->layout().size());
    kernels::LossSums sums;
    const auto batch = one.batch({&TrialModel::kAll, 1});
    CHECK_THROWS_WITH(one.model->loss_and_gradient(batch, 1, one.state(), {gradient.view()}, sums),
                      Catch::Contains("this strategy"));
    CHECK_THROWS_WITH(one.model->require_gradient(), Catch::Contains("this strategy"));
    if (trial.settings.kind != "word2vec" && trial.settings.kind != "glove") return;
    CHECK_THROWS_WITH(one.model->predict(batch, one.state(), {}), Catch::Contains("unisono neighbors"));
  });
}

TEST_CASE("models refuse sets and update rules that are not theirs", "[in_place]") {
  const SmallSets sets;
  for (const InPlaceTrial& trial : in_place_trials(sets)) {
    INFO(trial.name);
    const std::string& kind = trial.settings.kind;
    for (const data::SetKind other : {data::SetKind::table, data::SetKind::sparse, data::SetKind::ratings,
                                      data::SetKind::text, data::SetKind::cooccurrences}) {
      const bool tables = kind == "linear" && (other == data::SetKind::table || other == data::SetKind::sparse);
      if (other == trial.inputs.kind || tables) continue;
      InPlaceTrial wrong = trial;
      wrong.inputs.kind = other;
      CHECK_THROWS_WITH(TrialModel(wrong, sets),
                        Catch::Contains("but the data set holds " + std::string(data::name_of(other))));
    }
    for (const std::string rule : {"sgd", "adagrad", "adam"}) {
      const bool fits =
          kind == "linear" || (rule == "sgd" && kind != "glove") || (rule == "adagrad" && kind != "word2vec");
      if (fits && (kind == "linear" || rule != "adam")) continue;
      InPlaceTrial wrong = trial;
      wrong.rule = rule;
      CHECK_THROWS_WITH(TrialModel(wrong, sets), Catch::Contains("optimizer.kind = \"" + rule + "\"") &&
                                                     Catch::Contains("is updated in place, which supports only"));
    }
  }
}

}  // namespace unisono::models
