#include "unisono/session/evaluation.hpp"

#include <catch2/catch.hpp>
#include <limits>

namespace unisono::session {
namespace {

/// Tells a metric of the validation set, epoch by epoch; ten steps each.
class Epochs {
 public:
  Epochs(CheckpointHeader& header, Selection& selection) : header_(header), selection_(selection) {}

  bool next(const std::string& name, double value, bool larger_is_better = false) {
    header_.step += 10;
    const std::vector<models::Metric> metrics = {{name, value, larger_is_better}};
    return selection_.judge([&](data::Split split) { return split == data::Split::validation ? &metrics : nullptr; });
  }

 private:
  CheckpointHeader& header_;
  Selection& selection_;
};

const Criterion kLoss{data::Split::validation, "loss"}, kAccuracy{data::Split::validation, "accuracy"};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("the best model is the one whose metric is the best so far, in its own sense", "[selection]") {
  CheckpointHeader header;
  Selection selection({.best = kAccuracy, .stopping = {}}, {}, header);
  Epochs epochs(header, selection);
  CHECK(epochs.next("accuracy", 0.5, true));
  CHECK_FALSE(epochs.next("accuracy", 0.5, true));
  CHECK_FALSE(epochs.next("accuracy", kNaN, true));
  CHECK(epochs.next("accuracy", 0.6, true));
  CHECK(header.best == 0.6);
  CHECK(header.best_by.criterion == "validation accuracy");
  CHECK(header.best_by.step == 40);
  CHECK_FALSE(selection.wants_to_stop());
}

TEST_CASE("early stopping waits for so many evaluations without an improvement in a row", "[selection]") {
  CheckpointHeader header;
  Selection selection({.best = {}, .stopping = kLoss}, {.patience = 2, .min_delta = 0.1}, header);
  Epochs epochs(header, selection);
  epochs.next("loss", 1);
  epochs.next("loss", 0.95);  // better, but not by 0.1
  CHECK(header.stopping_by.waited == 1);
  epochs.next("loss", 0.85);
  CHECK(header.stopping_by.waited == 0);
  epochs.next("loss", 0.8);
  CHECK_FALSE(selection.wants_to_stop());
  epochs.next("loss", kNaN);
  CHECK(selection.wants_to_stop());
  CHECK(header.stopping_by.step == 30);
}

TEST_CASE("a metric that never is a number stops no run", "[selection]") {
  CheckpointHeader header;
  Selection selection({.best = kLoss, .stopping = kLoss}, {.patience = 1}, header);
  Epochs epochs(header, selection);
  for (int i = 0; i < 5; ++i) CHECK_FALSE(epochs.next("loss", kNaN));
  CHECK_FALSE(selection.wants_to_stop());
}

TEST_CASE("a run asks for the splits that it is judged by", "[selection]") {
  CheckpointHeader header;
  const Selection selection(
      {.best = Criterion{data::Split::test, "loss"}, .stopping = Criterion{data::Split::train, "loss"}}, {}, header);
  CHECK(selection.needs(data::Split::test));
  CHECK(selection.needs(data::Split::train));
  CHECK_FALSE(selection.needs(data::Split::validation));
}

}  // namespace
}  // namespace unisono::session
