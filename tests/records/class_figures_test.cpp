#include "unisono/records/class_figures.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

namespace unisono::records {
namespace {

TEST_CASE("precision, recall and F1 of a confusion matrix", "[classes]") {
  // rows are labels, columns predictions; class 3 never occurs
  //      0  1  2
  //  0   2  1  0
  //  1   0  3  0
  //  2   1  1  0
  ConfusionMatrix matrix(4);
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
  CHECK(matrix.accuracy() == Approx(5.0 / 8));
  CHECK(matrix.balanced_accuracy() == Approx((2.0 / 3 + 1 + 0) / 3));  // class 3 has no examples
  // Means over classes 0, 1 and 2; weights 3, 3 and 2.
  CHECK(matrix.macro_mean().precision == Approx((2.0 / 3 + 3.0 / 5) / 3));
  CHECK(matrix.macro_mean().recall == Approx((2.0 / 3 + 1) / 3));
  CHECK(matrix.weighted_mean().recall == Approx(5.0 / 8));  // the accuracy
  CHECK(matrix.weighted_mean().f1 == Approx((3 * 2.0 / 3 + 3 * 0.75) / 8));
  CHECK(matrix.weighted_mean().support == 8);
  CHECK(std::isnan(ConfusionMatrix(2).balanced_accuracy()));
}

TEST_CASE("figures of a class without training examples are undefined, and means leave it out", "[figures]") {
  ConfusionMatrix matrix(3);
  matrix.add(0, 0), matrix.add(0, 1), matrix.add(1, 1), matrix.add(2, 1), matrix.add(2, 0);
  matrix.set_untrained({false, false, true});
  CHECK(std::isnan(matrix.of(2).precision));
  CHECK(std::isnan(matrix.of(2).f1));
  CHECK(matrix.of(2).support == 2);
  CHECK(matrix.of(1).precision == Approx(1.0 / 3));  // its wrong predictions count
  CHECK(matrix.macro_mean().recall == Approx((0.5 + 1) / 2));
  CHECK(matrix.balanced_accuracy() == Approx((0.5 + 1) / 2));
  CHECK(matrix.weighted_mean().recall == Approx((2 * 0.5 + 1) / 3));
  CHECK(matrix.macro_mean().support == 3);
  matrix.set_untrained({true, true, true});
  CHECK(std::isnan(matrix.macro_mean().f1));
  CHECK(std::isnan(matrix.weighted_mean().f1));
  CHECK(std::isnan(matrix.balanced_accuracy()));

  ClassificationFigures figures{.matrix = ConfusionMatrix(2), .ranking = {{0.75, 0.5}}};
  figures.matrix.add(0, 0), figures.matrix.add(1, 1);
  figures.set_untrained({false, true});
  for (const char* name : {"auc", "average_precision", "precision", "f1"})
    CHECK(models::find_metric(metrics_of(figures), name) == nullptr);
}

TEST_CASE("very many classes have counts of their own, but no cells", "[classes]") {
  ConfusionMatrix matrix(ConfusionMatrix::kMostClasses + 1);
  CHECK_FALSE(matrix.has_cells());
  matrix.add(2048, 2048);
  matrix.add(2048, 7);
  CHECK(matrix.of(2048).recall == 0.5);
  CHECK(matrix.of(7).precision == 0);
  CHECK(matrix.macro_mean().precision == 0.5);  // of classes 7 and 2048
  CHECK_FALSE(ConfusionMatrix(3, /*cells=*/false).has_cells());
}

TEST_CASE("outputs are read as classes", "[classes]") {
  const ClassReading one{.classes = 2, .outputs = 1, .probabilities = true};
  const std::vector<float> half = {0.5F}, more = {0.75F}, less = {0.125F}, three = {1, 3, 3};
  CHECK(one.class_of(half) == 0);
  CHECK(one.class_of(more) == 1);
  CHECK(ClassReading{.classes = 2, .outputs = 1}.class_of(less) == 1);  // a margin
  CHECK(ClassReading{.classes = 3, .outputs = 3}.class_of(three) == 1);
  std::vector<float> many(37, -1);
  for (const std::size_t place : {0, 7, 8, 20, 31, 36}) {
    many[place] = 0.5F;
    CHECK(ClassReading{.classes = 37, .outputs = 37}.class_of(many) == static_cast<std::int32_t>(place));
    many[36] = 0.5F;  // of equals, the first
    CHECK(ClassReading{.classes = 37, .outputs = 37}.class_of(many) == static_cast<std::int32_t>(place));
    many[place] = many[36] = -1;
  }
  const ClassReading threshold{.classes = 2, .outputs = 2, .probabilities = true, .threshold = 0.25};
  const std::vector<float> quarter = {0.75F, 0.25F}, below = {0.875F, 0.125F};
  CHECK(threshold.class_of(quarter) == 1);  // at least the threshold
  CHECK(threshold.class_of(below) == 0);
}

TEST_CASE("areas under curves, by hand, ties among them", "[classes]") {
  // From the top: + | − | + − (equal) | −. Pairs: 3 + (0 + ½ + 1) of 6; recall rises at 0.9, and at 0.5 of four.
  const RankingFigures figures = rank_figures({0.1F, 0.7F, 0.5F}, {0.5F, 0.9F});
  CHECK(figures.roc_auc == Approx(4.5 / 6));
  CHECK(figures.average_precision == Approx(0.5 * 1 + 0.5 * 2 / 4));
  const auto area = [](std::vector<float> negative, std::vector<float> positive) {
    return rank_figures(std::move(negative), std::move(positive)).roc_auc;
  };
  // 2 beats 1, ties with 2, loses to 3; 4 beats all: (1 + ½ + 3) of 6 pairs.
  CHECK(area({3, 1, 2}, {4, 2}) == 0.75);
  CHECK(area({1, 2}, {3, 4}) == 1);
  CHECK(area({3, 4}, {1, 2}) == 0);
  CHECK(area({5, 5, 5}, {5, 5}) == 0.5);
  CHECK(area({0, 1, 1, 1, 2}, {1, 1}) == 0.5);
  CHECK(area({-INFINITY, 0}, {INFINITY, 0}) == 0.875);
  for (const auto& [negative, positive] : std::vector<std::array<std::vector<float>, 2>>{
           {{{}, {1}}}, {{{1}, {}}}, {{{}, {}}}, {{{1, NAN}, {1}}}, {{{1}, {NAN}}}}) {
    CHECK(std::isnan(rank_figures(negative, positive).roc_auc));
    CHECK(std::isnan(rank_figures(negative, positive).average_precision));
  }
}

TEST_CASE("areas of many scores are those of all pairs", "[classes]") {
  std::vector<float> negative, positive;
  for (int i = 0; i < 3000; ++i) {
    const float score = static_cast<float>(i * 7919 % 1009 - 500) / 64;
    (i * 31 % 7 < 3 ? positive : negative).push_back(i % 500 == 0 ? -0.0F : score);
  }
  double halves = 0;
  for (const float p : positive) {
    for (const float n : negative) halves += p > n ? 2 : p == n ? 1 : 0;
  }
  const double pairs = static_cast<double>(negative.size() * positive.size());
  CHECK(rank_figures(negative, positive).roc_auc == Approx(halves / 2 / pairs).epsilon(1e-14));
}

/// Eight examples of three classes, with ties; all numbers are exact.
struct ThreeClasses {
  std::vector<std::array<float, 3>> rows = {{0.5F, 0.25F, 0.25F}, {0.25F, 0.5F, 0.25F}, {0.125F, 0.125F, 0.75F},
                                            {0.5F, 0.25F, 0.25F}, {0.25F, 0.25F, 0.5F}, {0.75F, 0.125F, 0.125F},
                                            {0.25F, 0.5F, 0.25F}, {0.25F, 0.25F, 0.5F}};
  std::vector<std::int32_t> labels = {0, 1, 2, 1, 2, 0, 0, 1};
};

double value(const std::vector<models::Metric>& metrics, const std::string& name) {
  const models::Metric* const found = models::find_metric(metrics, name);
  return found == nullptr ? std::nan("") : found->value;
}

TEST_CASE("metrics of three classes are those of scikit-learn", "[classes]") {
  const ThreeClasses examples;
  const ClassReading reading{.classes = 3, .outputs = 3, .probabilities = true};
  ClassificationFigures figures{.matrix = ConfusionMatrix(3), .calibration = Calibration()};
  for (std::size_t i = 0; i < examples.rows.size(); ++i) {
    const std::int32_t predicted = reading.class_of(examples.rows[i]);
    figures.matrix.add(examples.labels[i], predicted);
    figures.calibration->add(examples.rows[i], examples.labels[i], predicted);
  }
  for (std::size_t k = 0; k < 3; ++k) {
    std::vector<float> negative, positive;
    for (std::size_t i = 0; i < examples.rows.size(); ++i) {
      (examples.labels[i] == static_cast<std::int32_t>(k) ? positive : negative).push_back(examples.rows[i][k]);
    }
    figures.ranking.push_back(rank_figures(negative, positive));
  }
  // roc_auc_score(multi_class="ovr"), average_precision_score, precision_recall_fscore_support(average="macro"), …
  const std::vector<models::Metric> metrics = metrics_of(figures);
  CHECK(value(metrics, "auc") == Approx(0.8194444444444445).epsilon(1e-14));
  CHECK(value(metrics, "average_precision") == Approx(0.6772486772486772).epsilon(1e-14));
  CHECK(value(metrics, "balanced_accuracy") == Approx(2.0 / 3).epsilon(1e-14));
  CHECK(value(metrics, "precision") == Approx(0.611111111111111).epsilon(1e-14));
  CHECK(value(metrics, "recall") == Approx(2.0 / 3).epsilon(1e-14));
  CHECK(value(metrics, "f1") == Approx(0.6222222222222222).epsilon(1e-14));
  CHECK(value(metrics, "f1_macro") == value(metrics, "f1"));
  CHECK(value(metrics, "log_loss") == Approx(0.8517110962428838).epsilon(1e-11));  // units of 2⁻⁴⁰
  CHECK(value(metrics, "brier_score") == Approx(0.4921875).epsilon(1e-11));
  // Confidences: five of ½ (7.5/15, in the eighth bin), three right; … two of ½ wrong; 0.75 twice, right.
  CHECK(value(metrics, "ece") == Approx((std::abs(3 - 6 * 0.5) + std::abs(2 - 2 * 0.75)) / 8).epsilon(1e-11));
  CHECK_FALSE(models::find_metric(metrics, "auc")->shown);
}

TEST_CASE("two classes have the figures of the second one, and macro means", "[classes]") {
  const std::vector<float> scores = {0.9F, 0.6F, 0.6F, 0.3F, 0.3F, 0.1F};
  const std::vector<std::int32_t> labels = {1, 1, 0, 1, 0, 0};
  ClassificationFigures figures{.matrix = ConfusionMatrix(2), .calibration = Calibration()};
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const std::array row = {1 - scores[i], scores[i]};
    figures.matrix.add(labels[i], scores[i] > 0.5F ? 1 : 0);
    figures.calibration->add(row, labels[i], scores[i] > 0.5F ? 1 : 0);
  }
  figures.ranking = {rank_figures({0.6F, 0.3F, 0.1F}, {0.9F, 0.6F, 0.3F})};
  const std::vector<models::Metric> metrics = metrics_of(figures);
  CHECK(value(metrics, "roc_auc") == Approx(7.0 / 9).epsilon(1e-14));
  CHECK(value(metrics, "average_precision") == Approx(0.7555555555555555).epsilon(1e-14));
  for (const char* name : {"precision", "recall", "f1", "f1_macro", "balanced_accuracy"}) {
    CHECK(value(metrics, name) == Approx(2.0 / 3).epsilon(1e-14));
  }
  CHECK(value(metrics, "log_loss") == Approx(0.5330808558700778).epsilon(1e-7));  // of floats
  CHECK(value(metrics, "brier_score") == Approx(0.18666666666666668).epsilon(1e-7));
  CHECK(models::find_metric(metrics, "auc")->shown);
}

TEST_CASE("what is undefined is left out", "[classes]") {
  const auto has = [](const ClassificationFigures& figures, const char* name) {
    return models::find_metric(metrics_of(figures), name) != nullptr;
  };
  ClassificationFigures none{.matrix = ConfusionMatrix(2), .ranking = {rank_figures({0.5F, 0.25F}, {})}};
  none.matrix.add(0, 0);
  none.matrix.add(0, 1);
  for (const char* name : {"auc", "average_precision", "precision", "recall", "f1", "log_loss"}) {
    CHECK_FALSE(has(none, name));  // no example is of the second class
  }
  CHECK(has(none, "balanced_accuracy"));
  CHECK(has(none, "f1_macro"));
  CHECK(metrics_of({.matrix = ConfusionMatrix(3)}).size() == 3);  // precision, recall and F1 of no classes, as always 0

  // Class 2 has no examples: the mean is over the two others.
  const ClassificationFigures absent{
      .matrix = ConfusionMatrix(3), .ranking = {rank_figures({0}, {1}), rank_figures({0}, {0}), rank_figures({0}, {})}};
  CHECK(value(metrics_of(absent), "auc") == 0.75);
}

TEST_CASE("calibration: bins, the Brier score and the log loss", "[classes]") {
  const std::vector<float> sure = {0, 1}, nearly = {0.1F, 0.9F}, edge = {0.8F, std::nextafter(0.2F, 0.0F)};
  Calibration calibration;
  // (13/15, 14/15] = (0.867, 0.933]: two of 0.9, one right; the last bin: one of 1, right.
  calibration.add(nearly, 1, 1);
  calibration.add(nearly, 0, 1);
  calibration.add(sure, 1, 1);
  CHECK(calibration.bin(13).examples == 2);
  CHECK(calibration.bin(13).accuracy == 0.5);
  CHECK(calibration.bin(14).confidence == 1);
  CHECK(calibration.bin(0).examples == 0);
  CHECK(calibration.expected_error() == Approx(2.0 / 3 * 0.4).epsilon(1e-6));
  CHECK(calibration.brier_score() == Approx(0.82 / 3).epsilon(1e-6));
  // A probability of 1 counts as 1 − 2⁻²³.
  CHECK(calibration.log_loss() == Approx(-(std::log(0.9) + std::log(0.1) + std::log1p(-0x1p-23)) / 3).epsilon(1e-6));
  Calibration wrong;
  wrong.add(sure, 0, 1);
  CHECK(wrong.log_loss() == Approx(23 * std::log(2.0)));
  Calibration low;  // 3/15 belongs to (2/15, 3/15]; as a float, 0.2 is a little above it
  low.add(edge, 0, 1);
  CHECK(low.bin(2).examples == 1);
  CHECK(std::isnan(Calibration().brier_score()));
  const std::vector<float> nothing = {NAN, NAN};
  low.add(nothing, 0, 0);
  CHECK(std::isnan(low.expected_error()));
  CHECK(std::isnan(low.log_loss()));

  const std::vector<float> one = {0.75F}, two = {0.25F, 0.75F}, three = {0.5F, 0.25F, 0.25F};
  CHECK(brier_part(one, 1) == 0.0625);
  CHECK(brier_part(two, 0) == 0.5625);
  CHECK(brier_part(three, 0) == 0.375);
  CHECK(probability_of(one, 0) == 0.25);
  CHECK(probability_of(three, 1) == 0.25);
}

TEST_CASE("sums of probabilities do not depend on their order", "[classes]") {
  std::array<Calibration, 2> both;
  for (int i = 0; i < 1000; ++i) {
    const float p = static_cast<float>((i * 7919) % 1000 + 1) / 1001, q = static_cast<float>(1000 - i) / 1001;
    both[0].add(std::array{1 - p, p}, i * 7919 % 3 == 0 ? 1 : 0, p > 0.5F ? 1 : 0);
    both[1].add(std::array{1 - q, q}, i % 2, q > 0.5F ? 1 : 0);
  }
  Calibration forwards = both[0], backwards = both[1];
  for (std::size_t i = 0; i < forwards.sums().size(); ++i) {
    forwards.sums()[i] += both[1].sums()[i];
    backwards.sums()[i] += both[0].sums()[i];
  }
  CHECK(forwards.log_loss() == backwards.log_loss());
  CHECK(forwards.brier_score() == backwards.brier_score());
  CHECK(forwards.expected_error() == backwards.expected_error());
}

TEST_CASE("the metrics that there may be are those of an evaluation", "[classes]") {
  const auto names = [](const ClassReading& reading) {
    std::string text;
    for (const models::Metric& metric : possible_metrics(reading)) text += metric.name + " ";
    return text;
  };
  CHECK(names({.classes = 2, .outputs = 2}) ==
        "auc average_precision balanced_accuracy precision recall f1 precision_macro recall_macro f1_macro ");
  CHECK(names({.classes = 3, .outputs = 3, .probabilities = true}) ==
        "auc average_precision balanced_accuracy precision recall f1 log_loss brier_score expected_calibration_error ");
}

TEST_CASE("curves begin and end where they should, and have the areas", "[classes]") {
  const RankingCurves curves = curves_of({0.1F, 0.7F, 0.5F}, {0.5F, 0.9F});
  // Thresholds 0.9, 0.7, 0.5 and 0.1.
  const auto points = [](const std::vector<CurvePoint>& curve) {
    std::vector<std::array<double, 2>> list;
    for (const CurvePoint& point : curve) list.push_back({point.x, point.y});
    return list;
  };
  CHECK(points(curves.roc) ==
        std::vector<std::array<double, 2>>{{0, 0}, {0, 0.5}, {1.0 / 3, 0.5}, {2.0 / 3, 1}, {1, 1}});
  CHECK(points(curves.precision_recall) ==
        std::vector<std::array<double, 2>>{{0.5, 1}, {0.5, 0.5}, {1, 0.5}, {1, 0.4}});
  CHECK(curves_of({}, {1}).roc.empty());

  std::vector<float> negative, positive;
  for (int i = 0; i < 5000; ++i) (i % 3 == 0 ? positive : negative).push_back(static_cast<float>(i * 7919 % 5003));
  const RankingCurves many = curves_of(negative, positive);
  CHECK(many.roc.size() < 500);
  double area = 0;
  for (std::size_t i = 1; i < many.roc.size(); ++i) {
    area += (many.roc[i].x - many.roc[i - 1].x) * (many.roc[i].y + many.roc[i - 1].y) / 2;
  }
  CHECK(area == Approx(rank_figures(negative, positive).roc_auc).margin(0.002));
}

TEST_CASE("a threshold makes its metric the best", "[classes]") {
  // From the top: + + − + − −. F1 is the best where four are taken: 2 · 3 / (4 + 3).
  const std::vector<float> negative = {0.5F, 0.25F, 0.125F}, positive = {0.875F, 0.75F, 0.375F};
  CHECK(best_threshold(negative, positive, "f1", 0.5)->threshold == 0.3125);
  CHECK(best_threshold(negative, positive, "f1", 0.5)->value == Approx(6.0 / 7));
  CHECK(best_threshold(negative, positive, "f1_macro", 0.5)->value == Approx((6.0 / 7 + 4.0 / 5) / 2));
  // Two or four taken: 5 of 6 are right in both; 0.625 is nearer to 0.5 than 0.3125.
  CHECK(best_threshold(negative, positive, "accuracy", 0.5)->threshold == 0.625);
  CHECK(best_threshold(negative, positive, "accuracy", 0.4)->threshold == 0.3125);
  CHECK(best_threshold(negative, positive, "balanced_accuracy", 0.5)->threshold == 0.625);
  // All are positive but the highest: taking all is the best.
  CHECK(best_threshold({1}, {0.5F, 0.25F, 0.125F}, "f1", 0.5)->threshold == 0.125);
  CHECK_FALSE(best_threshold({}, positive, "f1", 0.5));
  CHECK_FALSE(best_threshold({NAN}, positive, "f1", 0.5));
}

}  // namespace
}  // namespace unisono::records
