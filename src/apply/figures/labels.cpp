// Figures of several labels as text and JSON.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "figures/figures.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/records/progress.hpp"

namespace unisono::apply {
namespace {

constexpr Index kMostLabelLines = 100;

std::string figure_text(double figure) { return std::isnan(figure) ? "-" : fmt::format("{:.4f}", figure); }

std::string label_line(const std::string& what, std::size_t width, const records::ClassFigures& figures,
                       const std::string& average_precision) {
  return fmt::format("  {:{}}  {:>9}  {:>6}  {:>6}  {:>17}  {:>8}", what, width, figure_text(figures.precision),
                     figure_text(figures.recall), figure_text(figures.f1), average_precision, grouped(figures.support));
}

std::string average_precision_text(const records::MultilabelFigures& figures, Index label) {
  if (figures.ranking.empty()) return "-";
  return figure_text(figures.ranking[static_cast<std::size_t>(label)].average_precision);
}

}  // namespace

nlohmann::ordered_json to_json(const records::MultilabelFigures& figures, const std::vector<std::string>& names) {
  nlohmann::ordered_json json;
  for (const auto& [mean, of] :
       {std::pair("macro", figures.counts.macro_mean()), std::pair("micro", figures.counts.micro_mean())}) {
    json[fmt::format("precision_{}", mean)] = of.precision;
    json[fmt::format("recall_{}", mean)] = of.recall;
    json[fmt::format("f1_{}", mean)] = of.f1;
  }
  if (!figures.ranking.empty()) json["roc_auc"] = mean_of(figures.ranking).roc_auc;  // "auc" among the metrics
  json["labels"] = nlohmann::ordered_json::array();
  for (Index label = 0; label < figures.counts.labels(); ++label) {
    const records::ClassFigures one = figures.counts.of(label);
    json["labels"].push_back({{"name", names.at(static_cast<std::size_t>(label))},
                              {"precision", one.precision},
                              {"recall", one.recall},
                              {"f1", one.f1},
                              {"examples", one.support}});
    if (figures.ranking.empty()) continue;
    const records::RankingFigures& ranking = figures.ranking[static_cast<std::size_t>(label)];
    json["labels"].back().update({{"roc_auc", ranking.roc_auc}, {"average_precision", ranking.average_precision}});
  }
  return json;
}

std::vector<std::string> to_text(const records::MultilabelFigures& figures, const std::vector<std::string>& names) {
  std::vector<std::string> lines;
  if (figures.ranking.empty()) {
    lines.emplace_back("  no auc and average_precision: there are too many scores for a rank's memory; use more ranks");
  }
  const Index shown = std::min(kMostLabelLines, figures.counts.labels());
  std::size_t width = 16;
  for (Index k = 0; k < shown; ++k) width = std::max(width, on_one_line(names[static_cast<std::size_t>(k)]).size());
  lines.push_back(fmt::format("  {:{}}  {:>9}  {:>6}  {:>6}  {:>17}  {:>8}", "label", width, "precision", "recall",
                              "f1", "average precision", "examples"));
  for (Index k = 0; k < shown; ++k) {
    lines.push_back(label_line(on_one_line(names[static_cast<std::size_t>(k)]), width, figures.counts.of(k),
                               average_precision_text(figures, k)));
  }
  if (shown < figures.counts.labels()) {
    lines.push_back(fmt::format("  and {}: --json", count_of(figures.counts.labels() - shown, "other label")));
  }
  const double mean = mean_of(figures.ranking).average_precision;
  lines.push_back(label_line("macro mean", width, figures.counts.macro_mean(), figure_text(mean)));
  lines.push_back(label_line("micro mean", width, figures.counts.micro_mean(), ""));
  const bool some_undefined =
      std::ranges::any_of(lines, [](const std::string& line) { return line.find("  - ") != std::string::npos; });
  if (some_undefined) lines.emplace_back("  -: undefined, since it would be 0/0; the macro mean leaves it out");
  return lines;
}

}  // namespace unisono::apply
