#include "validation/fold_results.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

namespace unisono::jobs {
namespace {

using Catch::Matchers::Contains;

records::TrialResult fold_of(double accuracy, std::optional<double> auc) {
  records::TrialResult result;
  result.metrics.push_back({data::Split::validation, "accuracy", accuracy, true});
  if (auc) result.metrics.push_back({data::Split::validation, "auc", *auc, true});
  return result;
}

TEST_CASE("a mean over folds leaves out those in which the metric is undefined, and says so", "[validation]") {
  const Folds folds = k_fold(9, 3, nullptr);
  const FoldResults results{
      .folds = folds, .results = {fold_of(0.5, 0.6), fold_of(0.7, std::nullopt), fold_of(0.9, 0.8)}, .choices = {}};
  CHECK(results.json()["metrics"]["accuracy"]["folds"] == 3);
  CHECK(results.json()["metrics"]["auc"]["folds"] == 2);
  CHECK(results.json()["metrics"]["auc"]["mean"] == Approx(0.7));
  CHECK_THAT(results.text(), Contains("over 2 of 3 folds: the others have no auc\n"));
  CHECK_THAT(results.text(), !Contains("no accuracy"));
}

TEST_CASE("a metric that is no number in a fold is undefined there", "[validation]") {
  const Folds folds = k_fold(4, 2, nullptr);
  const FoldResults results{
      .folds = folds, .results = {fold_of(0.5, std::nan("")), fold_of(0.7, std::nan(""))}, .choices = {}};
  CHECK(results.metrics().size() == 1);
  CHECK(results.metrics()[0].name == "accuracy");
}

}  // namespace
}  // namespace unisono::jobs
