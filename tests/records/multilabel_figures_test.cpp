#include "unisono/records/multilabel_figures.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace unisono::records {
namespace {

double value_of(const std::vector<models::Metric>& metrics, std::string_view name) {
  const models::Metric* const found = models::find_metric(metrics, name);
  return found == nullptr ? std::nan("") : found->value;
}

/// Five examples of four labels. The third label is never there, the last one neither there nor predicted.
MultilabelCounts five_examples() {
  const std::vector<float> targets = {1, 0, 0, 0,  //
                                      1, 1, 0, 0,  //
                                      0, 1, 0, 0,  //
                                      1, 0, 0, 0,  //
                                      0, 0, 0, 0};
  const std::vector<float> probabilities = {0.9F, 0.6F, 0.1F, 0.2F,  //
                                            0.8F, 0.2F, 0.7F, 0.5F,  // ½ is no prediction
                                            0.4F, 0.9F, 0.3F, 0.1F,  //
                                            0.3F, 0.1F, 0.6F, 0.0F,  //
                                            0.2F, 0.4F, 0.2F, 0.5F};
  MultilabelCounts counts(4);
  for (std::size_t i = 0; i < 5; ++i) {
    counts.add(View(probabilities).subspan(4 * i, 4), View(targets).subspan(4 * i, 4));
  }
  return counts;
}

TEST_CASE("each of several labels has precision, recall and F1 of its own", "[multilabel]") {
  const MultilabelCounts counts = five_examples();
  CHECK(counts.of(0).precision == 1);
  CHECK(counts.of(0).recall == Approx(2.0 / 3));
  CHECK(counts.of(0).f1 == Approx(4.0 / 5));
  CHECK(counts.of(0).support == 3);
  CHECK(counts.of(1).precision == Approx(1.0 / 2));
  CHECK(counts.of(1).recall == Approx(1.0 / 2));
  // Predicted twice, and never there: there is nothing to recall.
  CHECK(counts.of(2).precision == 0);
  CHECK(std::isnan(counts.of(2).recall));
  CHECK(counts.of(2).f1 == 0);
  CHECK(std::isnan(counts.of(3).precision));
  CHECK(std::isnan(counts.of(3).recall));
  CHECK(std::isnan(counts.of(3).f1));
}

TEST_CASE("means over labels leave out what is undefined", "[multilabel]") {
  const MultilabelCounts counts = five_examples();
  CHECK(counts.macro_mean().precision == Approx((1 + 0.5 + 0) / 3));
  CHECK(counts.macro_mean().recall == Approx((2.0 / 3 + 0.5) / 2));
  CHECK(counts.macro_mean().f1 == Approx((0.8 + 0.5 + 0) / 3));
  // Of all labels: 3 hits, 6 predictions, 5 that are there.
  CHECK(counts.micro_mean().precision == Approx(3.0 / 6));
  CHECK(counts.micro_mean().recall == Approx(3.0 / 5));
  CHECK(counts.micro_mean().f1 == Approx(6.0 / 11));
  CHECK(counts.micro_mean().support == 5);
}

TEST_CASE("metrics of several labels: undefined ones are left out", "[multilabel]") {
  const double undefined = std::nan("");
  const MultilabelFigures figures{.counts = five_examples(),
                                  .ranking = {{0.9, 0.8}, {0.7, 0.6}, {undefined, undefined}, {undefined, undefined}}};
  const auto metrics = metrics_of(figures);
  CHECK(value_of(metrics, "auc") == Approx(0.8));
  CHECK(value_of(metrics, "average_precision") == Approx(0.7));
  CHECK(value_of(metrics, "f1") == Approx(1.3 / 3));
  CHECK(value_of(metrics, "f1_macro") == Approx(1.3 / 3));
  CHECK(value_of(metrics, "f1_micro") == Approx(6.0 / 11));
  MultilabelCounts nothing(2);
  const std::vector<float> zeros = {0, 0};
  nothing.add(zeros, zeros);
  CHECK(metrics_of({.counts = nothing, .ranking = {{undefined, undefined}, {undefined, undefined}}}).empty());
  CHECK(possible_multilabel_metrics().size() == 6);
}

}  // namespace
}  // namespace unisono::records
