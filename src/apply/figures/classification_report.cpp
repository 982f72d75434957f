#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "figures/classification.hpp"
#include "unisono/records/progress.hpp"

namespace unisono::apply {
namespace {

using Json = nlohmann::ordered_json;

constexpr Index kMostLines = 20;

std::string name_of(const std::vector<std::string>& names, Index label) {
  const auto at = static_cast<std::size_t>(label);
  return at < names.size() ? names[at] : "";
}

Json to_json(const ClassificationFigures& figures, Index label, const std::vector<std::string>& names) {
  const records::ClassFigures one = figures.matrix.of(label);
  Json json = {{"class", label}};
  if (!names.empty()) json["name"] = name_of(names, label);
  json.update({{"precision", one.precision}, {"recall", one.recall}, {"f1", one.f1}, {"examples", one.support}});
  if (figures.matrix.classes() == 2 || figures.ranking.empty()) return json;
  const RankingFigures& ranking = figures.ranking[static_cast<std::size_t>(label)];
  json.update({{"roc_auc", ranking.roc_auc}, {"average_precision", ranking.average_precision}});
  return json;
}

Json cells(const records::ConfusionMatrix& matrix) {
  Json rows = Json::array();
  for (Index truth = 0; truth < matrix.classes(); ++truth) {
    Json row = Json::array();
    for (Index predicted = 0; predicted < matrix.classes(); ++predicted) row.push_back(matrix.cell(truth, predicted));
    rows.push_back(std::move(row));
  }
  return rows;
}

Json bins(const Calibration& calibration) {
  Json list = Json::array();
  for (int b = 0; b < Calibration::kBins; ++b) {
    const Calibration::Bin bin = calibration.bin(b);
    list.push_back({{"from", static_cast<double>(b) / Calibration::kBins},
                    {"to", static_cast<double>(b + 1) / Calibration::kBins},
                    {"examples", static_cast<std::int64_t>(bin.examples)},
                    {"confidence", bin.confidence},
                    {"accuracy", bin.accuracy}});
  }
  return list;
}

std::string class_line(const std::string& what, std::size_t width, const records::ClassFigures& figures) {
  return fmt::format("  {:{}}  {:>9.4f}  {:>6.4f}  {:>6.4f}  {:>8}", what, width, figures.precision, figures.recall,
                     figures.f1, grouped(figures.support));
}

/// "3 cat"
std::vector<std::string> class_titles(Index classes, const std::vector<std::string>& names) {
  std::vector<std::string> titles;
  for (Index label = 0; label < classes; ++label) {
    const std::string name = name_of(names, label);
    titles.push_back(fmt::format("{}{}{}", label, name.empty() ? "" : " ", name));
  }
  return titles;
}

/// Rows are labels, columns predictions.
void add_cells(const records::ConfusionMatrix& matrix, const std::vector<std::string>& titles, std::size_t width,
               std::vector<std::string>& lines) {
  std::size_t cell = 2;
  for (Index truth = 0; truth < matrix.classes(); ++truth) {
    cell = std::max(cell, std::to_string(matrix.support(truth)).size());
  }
  std::string head = fmt::format("  {:{}} ", "true \\ predicted", width);
  for (Index predicted = 0; predicted < matrix.classes(); ++predicted) head += fmt::format(" {:>{}}", predicted, cell);
  lines.push_back(head);
  for (Index truth = 0; truth < matrix.classes(); ++truth) {
    std::string line = fmt::format("  {:{}} ", titles[static_cast<std::size_t>(truth)], width);
    for (Index predicted = 0; predicted < matrix.classes(); ++predicted) {
      line += fmt::format(" {:>{}}", matrix.cell(truth, predicted), cell);
    }
    lines.push_back(line);
  }
}

}  // namespace

Json to_json(const ClassificationFigures& figures, const std::vector<std::string>& names) {
  const records::ConfusionMatrix& matrix = figures.matrix;
  Json json;
  for (const auto& [mean, of] :
       {std::pair("macro", matrix.macro_mean()), std::pair("weighted", matrix.weighted_mean())}) {
    json[fmt::format("precision_{}", mean)] = of.precision;
    json[fmt::format("recall_{}", mean)] = of.recall;
    json[fmt::format("f1_{}", mean)] = of.f1;
  }
  if (!figures.ranking.empty()) {
    const RankingFigures ranking = figures.mean_ranking();
    json["roc_auc"] = ranking.roc_auc;
    json["average_precision"] = ranking.average_precision;
  }
  if (figures.calibration) {
    json["expected_calibration_error"] = figures.calibration->expected_error();
    json["brier_score"] = figures.calibration->brier_score();
  }
  json["classes"] = Json::array();
  for (Index label = 0; label < matrix.classes(); ++label) json["classes"].push_back(to_json(figures, label, names));
  if (matrix.has_cells()) json["confusion_matrix"] = cells(matrix);
  if (figures.calibration) json["calibration"] = bins(*figures.calibration);
  return json;
}

std::vector<std::string> to_text(const ClassificationFigures& figures, const std::vector<std::string>& names) {
  const records::ConfusionMatrix& matrix = figures.matrix;
  std::vector<std::string> lines;
  const auto add = [&](const char* name, double value) { lines.push_back(fmt::format("  {:27} {:.6g}", name, value)); };
  if (!figures.ranking.empty()) {
    const RankingFigures ranking = figures.mean_ranking();
    add("roc_auc", ranking.roc_auc);
    add("average_precision", ranking.average_precision);
  } else {
    lines.emplace_back(
        "  no roc_auc and average_precision: there are too many scores for a rank's memory; use more ranks");
  }
  if (figures.calibration) {
    add("expected_calibration_error", figures.calibration->expected_error());
    add("brier_score", figures.calibration->brier_score());
  }
  const bool each = matrix.classes() <= kMostLines;
  const auto titles = class_titles(each ? matrix.classes() : 0, names);
  std::size_t width = each ? 16 : 13;
  for (const std::string& title : titles) width = std::max(width, title.size());
  lines.push_back(
      fmt::format("  {:{}}  {:>9}  {:>6}  {:>6}  {:>8}", "class", width, "precision", "recall", "f1", "examples"));
  for (std::size_t label = 0; label < titles.size(); ++label) {
    lines.push_back(class_line(titles[label], width, matrix.of(static_cast<Index>(label))));
  }
  lines.push_back(class_line("macro mean", width, matrix.macro_mean()));
  lines.push_back(class_line("weighted mean", width, matrix.weighted_mean()));
  if (each) {
    add_cells(matrix, titles, width, lines);
  } else {
    lines.push_back(fmt::format("  each of the {} classes, and the confusion matrix: --json", matrix.classes()));
  }
  return lines;
}

}  // namespace unisono::apply
