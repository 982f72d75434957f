#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "figures/figures.hpp"
#include "recommend/recommender.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/base/threads.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/session/evaluation.hpp"

namespace unisono::apply {
namespace {

using Json = nlohmann::ordered_json;

constexpr Index kMostLines = 20;

std::string name_of(const std::vector<std::string>& names, Index label) {
  const auto at = static_cast<std::size_t>(label);
  return at < names.size() ? names[at] : "";
}

Json to_json(const records::ClassificationFigures& figures, Index label, const std::vector<std::string>& names) {
  const records::ClassFigures one = figures.matrix.of(label);
  Json json = {{"class", label}};
  if (!names.empty()) json["name"] = name_of(names, label);
  json.update({{"precision", one.precision}, {"recall", one.recall}, {"f1", one.f1}, {"examples", one.support}});
  if (figures.matrix.is_untrained(label)) json["trained"] = false;
  if (figures.matrix.classes() == 2 || figures.ranking.empty()) return json;
  const records::RankingFigures& ranking = figures.ranking[static_cast<std::size_t>(label)];
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

Json bins(const records::Calibration& calibration) {
  Json list = Json::array();
  for (int b = 0; b < records::Calibration::kBins; ++b) {
    const records::Calibration::Bin bin = calibration.bin(b);
    list.push_back({{"from", static_cast<double>(b) / records::Calibration::kBins},
                    {"to", static_cast<double>(b + 1) / records::Calibration::kBins},
                    {"examples", static_cast<std::int64_t>(bin.examples)},
                    {"confidence", bin.confidence},
                    {"accuracy", bin.accuracy}});
  }
  return list;
}

std::string class_line(const std::string& what, std::size_t width, const records::ClassFigures& figures) {
  const auto text = [](double figure) { return std::isnan(figure) ? "-" : fmt::format("{:.4f}", figure); };
  return fmt::format("  {:{}}  {:>9}  {:>6}  {:>6}  {:>8}", what, width, text(figures.precision), text(figures.recall),
                     text(figures.f1), grouped(figures.support));
}

bool has_untrained(const records::ConfusionMatrix& matrix) {
  for (Index label = 0; label < matrix.classes(); ++label) {
    if (matrix.is_untrained(label)) return true;
  }
  return false;
}

/// "3 cat"
std::vector<std::string> class_titles(Index classes, const std::vector<std::string>& names) {
  std::vector<std::string> titles;
  for (Index label = 0; label < classes; ++label) {
    const std::string name = name_of(names, label);
    titles.push_back(fmt::format("{}{}{}", label, name.empty() ? "" : " ", on_one_line(name)));
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

Json to_json(const records::ClassificationFigures& figures, const std::vector<std::string>& names) {
  const records::ConfusionMatrix& matrix = figures.matrix;
  Json json;
  for (const auto& [mean, of] :
       {std::pair("macro", matrix.macro_mean()), std::pair("weighted", matrix.weighted_mean())}) {
    json[fmt::format("precision_{}", mean)] = of.precision;
    json[fmt::format("recall_{}", mean)] = of.recall;
    json[fmt::format("f1_{}", mean)] = of.f1;
  }
  if (!figures.ranking.empty()) {
    const records::RankingFigures ranking = mean_of(figures.ranking);
    json["roc_auc"] = ranking.roc_auc;  // "auc" among the metrics
  }
  json["classes"] = Json::array();
  for (Index label = 0; label < matrix.classes(); ++label) json["classes"].push_back(to_json(figures, label, names));
  if (matrix.has_cells()) json["confusion_matrix"] = cells(matrix);
  if (figures.calibration) json["calibration"] = bins(*figures.calibration);
  return json;
}

std::vector<std::string> to_text(const records::ClassificationFigures& figures, const std::vector<std::string>& names) {
  const records::ConfusionMatrix& matrix = figures.matrix;
  std::vector<std::string> lines;
  if (figures.ranking.empty()) {
    lines.emplace_back("  no auc and average_precision: there are too many scores for a rank's memory; use more ranks");
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
  if (each && has_untrained(matrix))
    lines.emplace_back("  -: undefined, since no training example has this class; the means leave it out");
  if (each) {
    add_cells(matrix, titles, width, lines);
  } else {
    lines.push_back(fmt::format("  each of the {} classes, and the confusion matrix: --json", matrix.classes()));
  }
  return lines;
}

namespace {

/// The relevant items of each user, ascending, without duplicates and without items that cannot be recommended.
class Relevant {
 public:
  Relevant(const RatedItems& liked, const RatedItems& excluded) : liked_(liked), excluded_(excluded) {}

  std::vector<std::uint32_t> of(Index user) const {
    std::vector<std::uint32_t> items(liked_.of(user).begin(), liked_.of(user).end());
    items.erase(std::unique(items.begin(), items.end()), items.end());
    std::vector<std::uint32_t> left;
    const auto rated = excluded_.of(user);
    std::set_difference(items.begin(), items.end(), rated.begin(), rated.end(), std::back_inserter(left));
    return left;
  }

 private:
  const RatedItems& liked_;
  const RatedItems& excluded_;
};

/// Computes three figures for each of users [first, last), at `figures` + 3 · user, and sets `counted` to 1 for those
/// with relevant items.
void judge(const Recommender& recommender, const Relevant& relevant, comm::Slice users, std::size_t k,
           std::vector<double>& figures, std::vector<std::int64_t>& counted) {
  std::vector<Recommendation> chosen(k);
  std::vector<std::int32_t> items(k);
  for (Index user = users.first; user < users.last; ++user) {
    const auto liked = relevant.of(user);
    if (liked.empty()) continue;
    const auto number = static_cast<std::int32_t>(user);
    recommender.recommend(std::span(&number, 1), chosen);
    std::transform(chosen.begin(), chosen.end(), items.begin(), [](const Recommendation& one) { return one.item; });
    const TopFigures found = top_figures(items, liked, k);
    const auto at = static_cast<std::size_t>(user);
    figures[3 * at] = found.precision;
    figures[3 * at + 1] = found.recall;
    figures[3 * at + 2] = found.ndcg;
    counted[at] = 1;
  }
}

/// What a relevant item at a place adds, 0 being the first. Järvelin & Kekäläinen, TOIS 20(4), 2002.
double gain(std::size_t place) { return 1 / std::log2(static_cast<double>(place) + 2); }

}  // namespace

RecommendationFigures recommend_split(TrainedModel& model, comm::Communicator& replicas, std::int64_t k,
                                      std::optional<double> least) {
  const models::ModelInputs& inputs = model.checkpoint.header.inputs;
  RecommendationFigures result{.k = k, .least = least.value_or(inputs.mean_value), .users = 0, .mean = {}};
  constexpr double kNone = std::numeric_limits<double>::infinity();
  const RatedItems excluded(**model.data, inputs.rows, data::Split::train,
                            model.split == data::Split::train ? kNone : -kNone);
  const RatedItems liked(**model.data, inputs.rows, model.split, result.least);
  const auto places = static_cast<std::size_t>(k);
  const Recommender recommender(*model.parts->model, model.parts->state(), inputs.columns, excluded, places);
  const Relevant relevant(liked, excluded);

  std::vector<double> figures(3 * static_cast<std::size_t>(inputs.rows));
  std::vector<std::int64_t> counted(static_cast<std::size_t>(inputs.rows));
  const comm::Slice own = comm::slice_of(inputs.rows, replicas.rank(), replicas.size());
  ThreadTeam team(model.parts->placement.threads);
  team.run([&](int thread) {
    const comm::Slice part = comm::slice_of(own.last - own.first, thread, team.size());
    judge(recommender, relevant, {own.first + part.first, own.first + part.last}, places, figures, counted);
  });
  replicas.allreduce_sum(std::span(figures));  // a user's figures are 0 on all ranks but one
  replicas.allreduce_sum(std::span(counted));
  for (std::size_t user = 0; user < counted.size(); ++user) {
    result.users += counted[user];
    result.mean.precision += figures[3 * user];
    result.mean.recall += figures[3 * user + 1];
    result.mean.ndcg += figures[3 * user + 2];
  }
  const auto users = static_cast<double>(result.users);  // without any, the means are NaN
  result.mean = {result.mean.precision / users, result.mean.recall / users, result.mean.ndcg / users};
  return result;
}

nlohmann::ordered_json to_json(const RecommendationFigures& figures) {
  return {{fmt::format("precision_at_{}", figures.k), figures.mean.precision},
          {fmt::format("recall_at_{}", figures.k), figures.mean.recall},
          {fmt::format("ndcg_at_{}", figures.k), figures.mean.ndcg},
          {"relevant_from", figures.least},
          {"users_with_relevant_items", figures.users}};
}

std::vector<std::string> to_text(const RecommendationFigures& figures) {
  const auto line = [&](const char* name, double value) {
    return fmt::format("  {:15} {}", fmt::format("{}@{}", name, figures.k), records::metric_text(value, 6));
  };
  return {
      fmt::format("  ranking, for {} with relevant items (rated {:.4g} or higher):", count_of(figures.users, "user"),
                  figures.least),
      line("precision", figures.mean.precision), line("recall", figures.mean.recall), line("ndcg", figures.mean.ndcg)};
}

TopFigures top_figures(std::span<const std::int32_t> recommended, std::span<const std::uint32_t> relevant,
                       std::size_t k) {
  double hits = 0, found = 0, most = 0;
  for (std::size_t place = 0; place < std::min(k, recommended.size()); ++place) {
    const std::int32_t item = recommended[place];
    if (item < 0 || !std::binary_search(relevant.begin(), relevant.end(), static_cast<std::uint32_t>(item))) continue;
    ++hits;
    found += gain(place);
  }
  for (std::size_t place = 0; place < std::min(k, relevant.size()); ++place) most += gain(place);
  return {.precision = hits / static_cast<double>(k),
          .recall = hits / static_cast<double>(relevant.size()),
          .ndcg = found / most};
}

}  // namespace unisono::apply
