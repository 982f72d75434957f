#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "figures/figures.hpp"
#include "unisono/records/model_examples.hpp"

namespace unisono::apply {
namespace {

TEST_CASE("precision, recall and F1 of a confusion matrix", "[figures]") {
  // rows are labels, columns predictions; class 3 never occurs
  //      0  1  2
  //  0   2  1  0
  //  1   0  3  0
  //  2   1  1  0
  records::ConfusionMatrix matrix(4);
  const auto add = [&](int truth, int predicted, int times) {
    for (int i = 0; i < times; ++i) matrix.add(truth, predicted);
  };
  add(0, 0, 2), add(0, 1, 1), add(1, 1, 3), add(2, 0, 1), add(2, 1, 1);
  CHECK(matrix.cell(2, 1) == 1);
  CHECK(matrix.cell(1, 2) == 0);
  CHECK(matrix.of(0).precision == Approx(2.0 / 3));
  CHECK(matrix.of(0).recall == Approx(2.0 / 3));
  CHECK(matrix.of(1).precision == Approx(3.0 / 5));
  CHECK(matrix.of(1).recall == 1);
  CHECK(matrix.of(1).f1 == Approx(0.75));
  CHECK(matrix.of(2).precision == 0);  // predicted of nobody
  CHECK(matrix.of(2).f1 == 0);
  CHECK(matrix.of(3).support == 0);
  // Means over classes 0, 1 and 2; weights 3, 3 and 2.
  CHECK(matrix.macro_mean().precision == Approx((2.0 / 3 + 3.0 / 5) / 3));
  CHECK(matrix.macro_mean().recall == Approx((2.0 / 3 + 1) / 3));
  CHECK(matrix.weighted_mean().recall == Approx(5.0 / 8));  // the accuracy
  CHECK(matrix.weighted_mean().f1 == Approx((3 * 2.0 / 3 + 3 * 0.75) / 8));
  CHECK(matrix.weighted_mean().support == 8);
}

TEST_CASE("figures of a class without training examples are undefined, and means leave it out", "[figures]") {
  records::ConfusionMatrix matrix(3);
  matrix.add(0, 0), matrix.add(0, 1), matrix.add(1, 1), matrix.add(2, 1), matrix.add(2, 0);
  matrix.set_untrained({false, false, true});
  CHECK(std::isnan(matrix.of(2).precision));
  CHECK(std::isnan(matrix.of(2).f1));
  CHECK(matrix.of(2).support == 2);
  CHECK(matrix.of(1).precision == Approx(1.0 / 3));  // its wrong predictions count
  CHECK(matrix.macro_mean().recall == Approx((0.5 + 1) / 2));
  CHECK(matrix.weighted_mean().recall == Approx((2 * 0.5 + 1) / 3));
  CHECK(matrix.macro_mean().support == 3);
  matrix.set_untrained({true, true, true});
  CHECK(std::isnan(matrix.macro_mean().f1));
  CHECK(std::isnan(matrix.weighted_mean().f1));
}

TEST_CASE("very many classes have counts of their own, but no cells", "[figures]") {
  records::ConfusionMatrix matrix(records::ConfusionMatrix::kMostClasses + 1);
  CHECK_FALSE(matrix.has_cells());
  matrix.add(2048, 2048);
  matrix.add(2048, 7);
  CHECK(matrix.of(2048).recall == 0.5);
  CHECK(matrix.of(7).precision == 0);
  CHECK(matrix.macro_mean().precision == 0.5);  // of classes 7 and 2048
}

TEST_CASE("the area under the ROC curve and average precision, ties among them", "[figures]") {
  // From the top: + | − | + − (equal) | −. Pairs: 3 + (0 + ½ + 1) of 6.
  const std::vector<RankedExample> examples = {{0.5F, true}, {0.9F, true}, {0.1F, false}, {0.7F, false}, {0.5F, false}};
  const RankingFigures figures = rank_figures(examples);
  CHECK(figures.roc_auc == Approx(4.5 / 6));
  CHECK(figures.average_precision ==
        Approx(0.5 * 1 + 0.5 * 2 / 4));  // recall rises at 0.9, and at 0.5 of four examples
  CHECK(rank_figures({{1, true}, {0, false}}).roc_auc == 1);
  CHECK(rank_figures({{1, false}, {0, true}}).roc_auc == 0);
  CHECK(rank_figures({{1, false}, {1, true}}).roc_auc == 0.5);
  for (const auto& none : std::vector<std::vector<RankedExample>>{{}, {{1, true}}, {{NAN, true}, {0, false}}}) {
    CHECK(std::isnan(rank_figures(none).roc_auc));
    CHECK(std::isnan(rank_figures(none).average_precision));
  }
}

TEST_CASE("the calibration error is the bins' mean gap, and the Brier score a mean square", "[figures]") {
  Calibration calibration;
  // (13/15, 14/15] = (0.867, 0.933]: two of 0.9, one right; the last bin: one of 1, right.
  calibration.add(0.9, true, 0.01);
  calibration.add(0.9, false, 0.81);
  calibration.add(1.0, true, 0);
  CHECK(calibration.bin(13).examples == 2);
  CHECK(calibration.bin(13).accuracy == 0.5);
  CHECK(calibration.bin(14).confidence == 1);
  CHECK(calibration.bin(0).examples == 0);
  CHECK(calibration.expected_error() == Approx(2.0 / 3 * 0.4));
  CHECK(calibration.brier_score() == Approx(0.82 / 3));

  Calibration edge;  // 3/15 belongs to (2/15, 3/15]
  edge.add(0.2, true, 0);
  CHECK(edge.bin(2).examples == 1);

  const std::vector<float> one = {0.75F}, two = {0.25F, 0.75F}, three = {0.5F, 0.25F, 0.25F};
  CHECK(brier_part(one, 1) == 0.0625);
  CHECK(brier_part(two, 0) == 0.5625);
  CHECK(brier_part(three, 0) == 0.375);
}

TEST_CASE("precision, recall and NDCG of a list with places left empty", "[figures]") {
  const std::vector<std::int32_t> items = {4, 9, 2, -1};
  const std::vector<std::uint32_t> relevant = {2, 3, 4};
  const TopFigures figures = top_figures(items, relevant, 4);
  CHECK(figures.precision == 0.5);
  CHECK(figures.recall == Approx(2.0 / 3));
  CHECK(figures.ndcg == Approx((1 + 0.5) / (1 + 1 / std::log2(3.0) + 0.5)));
  CHECK(top_figures(items, relevant, 1).ndcg == 1);
}

TEST_CASE("outputs are read as classes", "[figures]") {
  const records::ClassReading one{.classes = 2, .outputs = 1, .probabilities = true};
  const std::vector<float> half = {0.5F}, more = {0.75F}, less = {0.125F}, three = {1, 3, 3};
  CHECK(one.class_of(half) == 0);
  CHECK(one.class_of(more) == 1);
  CHECK(one.confidence(more) == 0.75);
  CHECK(one.confidence(less) == 0.875);
  CHECK(records::ClassReading{.classes = 2, .outputs = 1}.class_of(less) == 1);  // a margin
  CHECK(records::ClassReading{.classes = 3, .outputs = 3}.class_of(three) == 1);
}

}  // namespace
}  // namespace unisono::apply
