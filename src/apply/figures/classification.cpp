#include "figures/classification.hpp"

#include <cmath>
#include <limits>

#include "unisono/session/evaluator.hpp"

namespace unisono::apply {
namespace {

constexpr Index kMostScores = Index{1} << 28;  // of a rank: 1 GiB

/// One rank's examples: their classes and outputs.
struct Scores {
  std::vector<std::int32_t> labels;
  std::vector<float> rows;  ///< [labels, outputs]; empty where nothing is ranked
};

/// Counts a batch. \return whether all its answers are classes
bool count(const records::ClassReading& reading, View rows, const std::vector<float>& answers,
           ClassificationFigures& figures, Scores& scores) {
  const auto outputs = static_cast<std::size_t>(reading.outputs);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto label = static_cast<std::int32_t>(answers[i]);
    if (static_cast<float>(label) != answers[i] || label < 0 || label >= reading.classes) return false;
    const View row = rows.subspan(i * outputs, outputs);
    const std::int32_t predicted = reading.class_of(row);
    figures.matrix.add(label, predicted);
    if (figures.calibration) {
      figures.calibration->add(reading.confidence(row), label == predicted, brier_part(row, label));
    }
    scores.labels.push_back(label);
  }
  return true;
}

/// Each rank ranks the scores of every P-th class.
std::vector<RankingFigures> rank_classes(comm::Communicator& replicas, const records::ClassReading& reading,
                                         const Scores& own) {
  const std::vector<std::int32_t> labels = replicas.all_gather_joined(own.labels);
  const auto outputs = static_cast<std::size_t>(reading.outputs);
  const std::size_t first = reading.classes == 2 ? 1 : 0;
  const std::size_t count = reading.classes == 2 ? 1 : static_cast<std::size_t>(reading.classes);
  std::vector<double> found(2 * count);
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t column = outputs == 1 ? 0 : first + k;
    std::vector<float> scores(own.labels.size());
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = own.rows[i * outputs + column];
    scores = replicas.all_gather_joined(scores);
    if (static_cast<int>(k % static_cast<std::size_t>(replicas.size())) != replicas.rank()) continue;
    std::vector<RankedExample> examples(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i) {
      examples[i] = {scores[i], labels[i] == static_cast<std::int32_t>(first + k)};
    }
    const RankingFigures figures = rank_figures(std::move(examples));
    found[2 * k] = figures.roc_auc;
    found[2 * k + 1] = figures.average_precision;
  }
  replicas.allreduce_sum(std::span(found));  // the others' are 0
  std::vector<RankingFigures> ranking;
  for (std::size_t k = 0; k < count; ++k) ranking.push_back({found[2 * k], found[2 * k + 1]});
  return ranking;
}

}  // namespace

RankingFigures ClassificationFigures::mean_ranking() const {
  RankingFigures sum;
  double count = 0;
  for (const RankingFigures& one : ranking) {
    if (std::isnan(one.roc_auc)) continue;
    sum.roc_auc += one.roc_auc;
    sum.average_precision += one.average_precision;
    ++count;
  }
  if (count == 0) return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  return {sum.roc_auc / count, sum.average_precision / count};
}

std::optional<ClassificationFigures> classify_split(TrainedModel& model, comm::Communicator& replicas,
                                                    const records::ClassReading& reading) {
  ClassificationFigures figures{.matrix = records::ConfusionMatrix(reading.classes), .calibration = {}, .ranking = {}};
  if (reading.probabilities) figures.calibration.emplace();
  const auto source = (*model.data)
                          ->evaluate(model.split, replicas.rank(), replicas.size(),
                                     model.config.train.evaluation_batch_size, model.parts->delivery());
  const bool ranked = replicas.max((source->last() - source->first()) * reading.outputs) <= kMostScores;
  Scores scores;
  std::vector<float> rows;
  bool classes = true;
  while (const auto batch = source->next()) {
    rows.resize(static_cast<std::size_t>(batch->size * reading.outputs));
    model.parts->model->predict(*batch, model.parts->state(), rows);
    classes = classes && count(reading, rows, answers_of(*batch), figures, scores);
    if (ranked) scores.rows.insert(scores.rows.end(), rows.begin(), rows.end());
  }
  if (replicas.max(classes ? 0 : 1) > 0) return std::nullopt;
  replicas.allreduce_sum(figures.matrix.counts());
  if (figures.calibration) replicas.allreduce_sum(figures.calibration->sums());
  if (ranked) figures.ranking = rank_classes(replicas, reading, scores);
  return figures;
}

}  // namespace unisono::apply
