#include "unisono/trials/study_analysis.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>

#include "unisono/base/errors.hpp"
#include "unisono/base/median.hpp"
#include "unisono/records/metrics_log.hpp"

namespace unisono::trials {
namespace {

/// The known ones of some figures.
class Figures {
 public:
  void add(double value) {
    if (std::isfinite(value)) values_.push_back(value);
  }
  double mean() const { return values_.empty() ? kUnknown : records::mean_of(values_); }
  double median() const { return values_.empty() ? kUnknown : median_of(values_); }
  double largest() const { return values_.empty() ? kUnknown : std::ranges::max(values_); }
  std::int64_t count() const { return std::ssize(values_); }

 private:
  std::vector<double> values_;
};

/// A variant's trainings, seed by seed; null where there is none, or it diverged.
using Trainings = std::vector<const StudyRecord*>;

Trainings trainings_of(const StudyPlan& plan, const std::vector<StudyRecord>& records, const Variant& variant) {
  Trainings trainings;
  for (std::int64_t i = 0; i < plan.settings.seeds; ++i) {
    const StudyRecord* record = find_record(records, {&variant, plan.first_seed + i});
    trainings.push_back(record == nullptr || record->diverged ? nullptr : record);
  }
  return trainings;
}

records::Pairs pairs_of(const Trainings& variant, const Trainings& serial) {
  records::Pairs pairs{.same_bits = true, .within_rounding = true};
  for (std::size_t i = 0; i < serial.size(); ++i) {
    if (serial[i] == nullptr) continue;
    if (variant[i] == nullptr) {
      ++pairs.diverged;
      continue;
    }
    pairs.variant.push_back(variant[i]->value);
    pairs.reference.push_back(serial[i]->value);
    const ModelDistance& distance = variant[i]->distance;
    pairs.same_bits = pairs.same_bits && distance.known && distance.different == 0;
    pairs.within_rounding = pairs.within_rounding && is_rounding(distance, variant[i]->steps);
  }
  if (pairs.variant.empty()) pairs.same_bits = pairs.within_rounding = false;
  return pairs;
}

void add_distances(const Trainings& own, const Trainings& serial, double optimum, VariantResult& result) {
  Figures relative, largest, predictions, classes, losses, above;
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i] == nullptr) continue;
    const ModelDistance& distance = own[i]->distance;
    result.different = std::max(result.different, distance.different);
    relative.add(distance.relative);
    largest.add(distance.largest);
    predictions.add(distance.predictions);
    classes.add(distance.classes);
    if (serial[i] != nullptr && own != serial) losses.add(own[i]->loss - serial[i]->loss);
    above.add(own[i]->objective - optimum);
  }
  result.relative = relative.mean();
  result.largest = largest.largest();
  result.predictions = predictions.mean();
  result.classes = classes.mean();
  result.loss_difference = losses.mean();
  result.above_optimum = above.mean();
}

/// At which updates, examples and seconds variants are compared: the most that every training reaches.
void set_common(const std::vector<Trainings>& all, StudyResult& result) {
  const auto least = [&](double CurvePoint::*axis) {
    double found = HUGE_VAL;
    for (const Trainings& trainings : all) {
      for (const StudyRecord* record : trainings) {
        if (record != nullptr && !record->curve.empty()) found = std::min(found, record->curve.back().*axis);
      }
    }
    return std::isfinite(found) ? found : kUnknown;
  };
  result.updates = least(&CurvePoint::updates);
  result.examples = least(&CurvePoint::examples);
  result.seconds = least(&CurvePoint::seconds);
}

void add_course(const Trainings& own, const StudyResult& study, bool larger_is_better, VariantResult& result) {
  Figures updates, examples, seconds, to_target, total;
  for (const StudyRecord* record : own) {
    if (record == nullptr) continue;
    updates.add(value_at(record->curve, &CurvePoint::updates, study.updates));
    examples.add(value_at(record->curve, &CurvePoint::examples, study.examples));
    seconds.add(value_at(record->curve, &CurvePoint::seconds, study.seconds));
    to_target.add(seconds_to(record->curve, study.target, larger_is_better));
    total.add(record->training_seconds());
  }
  result.at_updates = updates.mean();
  result.at_examples = examples.mean();
  result.at_seconds = seconds.mean();
  result.to_target = to_target.median();
  result.reached = to_target.count();
  result.seconds = total.median();
  for (const StudyRecord* record : own) {
    if (record != nullptr) result.parts += (1.0 / static_cast<double>(total.count())) * record->seconds;
  }
}

double target_of(const StudyPlan& plan, const Trainings& serial) {
  if (!plan.settings.target.empty()) return plan.settings.target.front();
  Figures values;
  for (const StudyRecord* record : serial) {
    if (record != nullptr) values.add(record->value);
  }
  return values.mean() + (plan.metric.larger_is_better ? -1 : 1) * plan.settings.margin;
}

void set_power(const StudyPlan& plan, StudyResult& result) {
  Figures deviations;
  for (const VariantResult& one : result.variants) {
    const records::Verdict verdict = one.judgement.verdict;
    const bool is_tested = verdict == records::Verdict::better || verdict == records::Verdict::worse ||
                           verdict == records::Verdict::unclear || verdict == records::Verdict::equivalent;
    if (is_tested && one.judgement.difference.pairs > 1) deviations.add(one.judgement.difference.deviation);
  }
  result.deviation = deviations.median();
  if (!std::isfinite(result.deviation) || plan.settings.margin == 0) return;
  const std::set<std::int64_t> seeds = {5, 10, 20, plan.settings.seeds};
  for (const std::int64_t count : seeds)
    result.power.emplace_back(count, records::power_of_pairs(plan.settings.margin, result.deviation, count));
}

}  // namespace

double value_at(const std::vector<CurvePoint>& curve, double CurvePoint::*axis, double x) {
  if (curve.empty() || !(x >= curve.front().*axis)) return kUnknown;
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const CurvePoint &before = curve[i - 1], &after = curve[i];
    if (x >= after.*axis) continue;
    const double share = (x - before.*axis) / (after.*axis - before.*axis);
    return before.value + share * (after.value - before.value);
  }
  return curve.back().value;
}

double seconds_to(const std::vector<CurvePoint>& curve, double target, bool larger_is_better) {
  const double sign = larger_is_better ? 1 : -1;
  for (std::size_t i = 0; i < curve.size(); ++i) {
    if (!(sign * (curve[i].value - target) >= 0)) continue;
    if (i == 0 || curve[i].value == curve[i - 1].value) return curve[i].seconds;
    const CurvePoint &before = curve[i - 1], &after = curve[i];
    if (!std::isfinite(before.value)) return after.seconds;
    const double share = (target - before.value) / (after.value - before.value);
    return before.seconds + share * (after.seconds - before.seconds);
  }
  return kUnknown;
}

bool is_rounding(const ModelDistance& distance, std::int64_t steps) {
  constexpr double kUnit = 0x1p-24, kMost = 1e-4;
  return distance.known && distance.relative <= std::min(static_cast<double>(steps) * kUnit, kMost);
}

StudyResult analyse(const StudyPlan& plan, const std::vector<StudyRecord>& records) {
  StudyResult result;
  std::vector<Trainings> all;
  std::vector<records::Pairs> pairs;
  for (const Variant& variant : plan.variants) all.push_back(trainings_of(plan, records, variant));
  const Trainings& serial = all.front();
  result.target = target_of(plan, serial);
  if (plan.optimum) {
    const StudyRecord* optimum = find_record(records, {&*plan.optimum, plan.first_seed});
    if (optimum != nullptr) result.optimum = optimum->objective;
  }
  set_common(all, result);
  for (std::size_t i = 0; i < all.size(); ++i) {
    VariantResult one{.variant = &plan.variants[i]};
    for (const StudyRecord* record : all[i]) {
      ++one.trainings;
      if (record == nullptr) {
        ++one.diverged;
      } else {
        one.values.push_back(record->value);
      }
    }
    add_distances(all[i], serial, result.optimum, one);
    add_course(all[i], result, plan.metric.larger_is_better, one);
    if (i > 0) {
      pairs.push_back(pairs_of(all[i], serial));
      one.undefined = records::count_undefined(pairs.back());
    }
    result.variants.push_back(std::move(one));
  }
  const std::vector<records::Judgement> judgements =
      records::judge(pairs, plan.settings.margin, plan.metric.larger_is_better);
  const double serial_seconds = result.variants.front().seconds;
  for (std::size_t i = 0; i < result.variants.size(); ++i) {
    VariantResult& one = result.variants[i];
    one.judgement = i == 0 ? records::Judgement{.verdict = records::Verdict::reference} : judgements[i - 1];
    one.speed_up = serial_seconds / one.seconds;
    one.efficiency = one.speed_up * plan.variants.front().cores() / one.variant->cores();
  }
  set_power(plan, result);
  return result;
}

namespace {

using Row = std::vector<std::string>;

/// Characters of a UTF-8 text.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

/// A table in Markdown, whose columns are as wide as their widest cell. The first row is the header.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 3);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  std::string text;
  const auto add = [&](const Row& row) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += "| " + row[i] + std::string(widths[i] - width_of(row[i]) + 1, ' ');
    text += "|\n";
  };
  add(rows.front());
  for (const std::size_t width : widths) text += "| " + std::string(width, '-') + " ";
  text += "|\n";
  for (std::size_t i = 1; i < rows.size(); ++i) add(rows[i]);
  return text;
}

/// "0.9712", or "—" for what is not known_or_null.
std::string number(double value, int digits = 4) {
  return std::isfinite(value) ? fmt::format("{:.{}g}", value, digits) : "—";
}

std::string percent(double share, int digits = 1) {
  return std::isfinite(share) ? fmt::format("{:.{}f} %", 100 * share, digits) : "—";
}

std::string seconds_text(double seconds) { return std::isfinite(seconds) ? fmt::format("{:.3g} s", seconds) : "—"; }

std::string variant_text(const VariantResult& one) {
  std::string text = one.variant->name;
  std::ranges::replace(text, '|', '/');
  return text;
}

std::string cores_text(const VariantResult& one) {
  return fmt::format("{} × {}", one.variant->trained_ranks(), one.variant->threads());
}

/// Those that are defined.
std::vector<double> known(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  return values;
}

/// "0.8 ± 0.01", "0.8 ± 0.01 (3 of 4)", "—"
std::string mean_text(const std::vector<double>& all) {
  const std::vector<double> values = known(all);
  if (values.empty()) return "—";
  return fmt::format("{:.4g} ± {:.2g}", records::mean_of(values), records::deviation_of(values)) +
         (values.size() < all.size() ? fmt::format(" ({} of {})", values.size(), all.size()) : "");
}

/// Whether there is a difference whose interval means something.
bool has_difference(const VariantResult& one) {
  const records::Verdict verdict = one.judgement.verdict;
  return verdict != records::Verdict::reference && std::isfinite(one.judgement.difference.mean) &&
         one.judgement.difference.pairs > 1;
}

std::string difference_text(const VariantResult& one) {
  if (!has_difference(one)) return "—";
  const records::PairedDifference& difference = one.judgement.difference;
  if (one.judgement.verdict == records::Verdict::same_bits) return "0";
  return fmt::format("{:+.3g} ± {:.2g}", difference.mean, difference.half_width);
}

std::string p_text(const VariantResult& one) {
  if (!has_difference(one) || one.judgement.verdict == records::Verdict::same_bits ||
      one.judgement.verdict == records::Verdict::rounding || one.judgement.verdict == records::Verdict::diverged)
    return "—";
  return one.judgement.p < 0.001 ? "< 0.001" : fmt::format("{:.3f}", one.judgement.p);
}

std::string verdict_of(const VariantResult& one) {
  if (one.judgement.verdict == records::Verdict::diverged)
    return fmt::format("diverged for {} of {}", one.diverged, count_of(one.trainings, "seed"));
  if (one.judgement.verdict == records::Verdict::undefined)
    return fmt::format("undefined for {} of {}", one.undefined, count_of(one.trainings, "seed"));
  return verdict_text(one.judgement);
}

std::string verdicts_table(const StudyPlan& plan, const StudyResult& result) {
  std::vector<Row> rows = {
      {"way", "ranks × threads", plan.metric.text() + ", ± deviation", "difference, ± 95 %", "p", "verdict"}};
  for (const VariantResult& one : result.variants) {
    rows.push_back({variant_text(one), cores_text(one), mean_text(one.values), difference_text(one), p_text(one),
                    verdict_of(one)});
  }
  return table(rows);
}

std::string distances_table(const StudyResult& result) {
  const bool classes = std::ranges::any_of(result.variants, [](const auto& one) { return std::isfinite(one.classes); });
  std::vector<Row> rows = {{"way", "ranks × threads", "parameters, of their norm", "largest", "outputs"}};
  if (classes) rows[0].push_back("other class");
  rows[0].push_back("loss");
  if (std::isfinite(result.optimum)) rows[0].push_back("above the minimum");
  for (const VariantResult& one : result.variants) {
    const bool is_serial = one.judgement.verdict == records::Verdict::reference;
    Row row = {is_serial ? "serial, between seeds" : variant_text(one), cores_text(one), number(one.relative, 3),
               number(one.largest, 3), number(one.predictions, 3)};
    if (classes) row.push_back(percent(one.classes, 2));
    row.push_back(std::isfinite(one.loss_difference) ? fmt::format("{:+.3g}", one.loss_difference) : "—");
    if (std::isfinite(result.optimum)) row.push_back(number(one.above_optimum, 3));
    rows.push_back(row);
  }
  return table(rows);
}

std::string speed_table(const StudyResult& result) {
  std::vector<Row> rows = {{"way", "ranks × threads", "seconds", "speed-up", "efficiency",
                            fmt::format("at {} updates", grouped(std::llround(std::max(0.0, result.updates)))),
                            fmt::format("at {} examples", grouped(std::llround(std::max(0.0, result.examples)))),
                            "at " + seconds_text(result.seconds), fmt::format("to {}", number(result.target))}};
  for (const VariantResult& one : result.variants) {
    std::string to_target = seconds_text(one.to_target);
    if (one.reached < one.trainings) to_target += fmt::format(" ({} of {})", one.reached, one.trainings);
    rows.push_back({variant_text(one), cores_text(one), seconds_text(one.seconds),
                    std::isfinite(one.speed_up) ? fmt::format("{:.2f} ×", one.speed_up) : "—",
                    percent(one.efficiency, 0), number(one.at_updates), number(one.at_examples), number(one.at_seconds),
                    to_target});
  }
  return table(rows);
}

std::string time_table(const StudyResult& result) {
  std::vector<Row> rows = {{"way", "ranks × threads", "compute", "communication", "waiting for ranks", "bubble",
                            "input", "optimizer", "other"}};
  for (const VariantResult& one : result.variants) {
    const Seconds& parts = one.parts;
    const double total = parts.sum() - parts.evaluation - parts.checkpoint;
    const auto share = [total](double seconds) { return total > 0 ? percent(seconds / total) : std::string("—"); };
    rows.push_back({variant_text(one), cores_text(one), share(parts.compute), share(parts.exposed_communication),
                    share(parts.straggler_wait), share(parts.bubble), share(parts.input), share(parts.optimizer),
                    share(parts.other)});
  }
  return table(rows);
}

/// What the study could find.
std::string power_text(const StudyPlan& plan, const StudyResult& result) {
  if (!std::isfinite(result.deviation)) return "";
  std::string text = fmt::format("Differences within pairs deviate by {:.3g}.", result.deviation);
  if (result.power.empty()) return text + " Without a margin (study.margin) no way is called equivalent.\n";
  std::string chances;
  for (const auto& [seeds, power] : result.power) {
    chances += fmt::format("{}{:.0f} % with {} seeds", chances.empty() ? "" : ", ", 100 * power, seeds);
  }
  return text + fmt::format(" A single comparison finds a difference of the margin, {:g}, with a chance of {}.\n",
                            plan.settings.margin, chances);
}

std::string seeds_text(const StudyPlan& plan) {
  return fmt::format("seeds {} to {}", plan.first_seed, plan.first_seed + plan.settings.seeds - 1);
}

constexpr std::string_view kSerialNote =
    "Serial runs are compared with that of the first seed, so their line says how far seeds alone are apart.\n";

nlohmann::ordered_json known_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

nlohmann::ordered_json variant_json(const VariantResult& one) {
  const std::vector<double> values = known(one.values);
  nlohmann::ordered_json json = {
      {"name", one.variant->name},
      {"ranks", one.variant->trained_ranks()},
      {"simulated", one.variant->config.simulation.is_on()},
      {"threads", one.variant->threads()},
      {"strategy", one.variant->config.strategy.kind},
      {"folder", one.variant->folder},
      {"identity", one.variant->identity},
      {"trainings", one.trainings},
      {"diverged", one.diverged},
      {"verdict", name_of(one.judgement.verdict, records::kVerdicts)},
      {"verdict_text", verdict_of(one)},
      {"values", one.values},
      {"mean", values.empty() ? nlohmann::ordered_json() : known_or_null(records::mean_of(values))},
      {"deviation", records::deviation_of(values)}};
  if (one.undefined > 0) json["undefined"] = one.undefined;
  if (has_difference(one)) {
    const records::PairedDifference& difference = one.judgement.difference;
    json["difference"] = {{"pairs", difference.pairs},         {"mean", difference.mean},
                          {"low", difference.low()},           {"high", difference.high()},
                          {"deviation", difference.deviation}, {"p", difference.p},
                          {"p_adjusted", one.judgement.p}};
    if (one.judgement.seeds_needed > 0) json["difference"]["seeds_needed"] = one.judgement.seeds_needed;
  }
  json["distance"] = {{"different_parameters", one.different},
                      {"relative", known_or_null(one.relative)},
                      {"largest", known_or_null(one.largest)},
                      {"predictions", known_or_null(one.predictions)},
                      {"classes", known_or_null(one.classes)},
                      {"loss", known_or_null(one.loss_difference)},
                      {"above_optimum", known_or_null(one.above_optimum)}};
  json["at_equal"] = {{"updates", known_or_null(one.at_updates)},
                      {"examples", known_or_null(one.at_examples)},
                      {"seconds", known_or_null(one.at_seconds)}};
  json["seconds_to_target"] = known_or_null(one.to_target);
  json["reached_target"] = one.reached;
  json["training_seconds"] = known_or_null(one.seconds);
  json["speed_up"] = known_or_null(one.speed_up);
  json["efficiency"] = known_or_null(one.efficiency);
  json["seconds"] = records::to_json(one.parts);
  return json;
}

}  // namespace

std::string to_markdown(const StudyPlan& plan, const StudyResult& result) {
  std::string text = fmt::format(
      "# Study: {}\n\nThe serial run and {} with {}. Compared by {} ({} is better); {}. Verdicts: paired tests over "
      "the "
      "seeds at a level of {:g} %, corrected for the number of variants (Holm).\n\n",
      plan.name, count_of(std::ssize(plan.variants) - 1, "variant"), seeds_text(plan), plan.metric.text(),
      plan.metric.larger_is_better ? "larger" : "smaller",
      plan.settings.margin > 0 ? fmt::format("margin ± {:g}", plan.settings.margin) : "no margin",
      100 * records::kLevel);
  text += "## Does it reach the state of the serial run?\n\n" + verdicts_table(plan, result) + "\n" +
          power_text(plan, result);
  text +=
      "\n## How far is it from the serial run?\n\nParameters: ‖θ − θ'‖ / ‖θ'‖, and the largest difference of one; "
      "outputs: the root mean square of their differences on the examples that count. " +
      std::string(kSerialNote) + "\n" + distances_table(result);
  if (std::isfinite(result.optimum)) text += fmt::format("\nThe minimum by L-BFGS is {:.8g}.\n", result.optimum);
  if (!plan.no_optimum.empty() && plan.settings.optimum) text += fmt::format("\nNo minimum: {}.\n", plan.no_optimum);
  text += fmt::format(
              "\n## How much faster is it?\n\nSeconds of training, without evaluations and checkpoints: the "
              "median of the seeds. Then the {}: at as many updates, examples and seconds as every training "
              "reaches; and the seconds to reach a value.\n\n",
              plan.metric.text()) +
          speed_table(result);
  text += "\n## Where does the time go?\n\n" + time_table(result);
  return text;
}

std::string to_text(const StudyPlan& plan, const StudyResult& result) {
  return verdicts_table(plan, result) + "\n" + distances_table(result) + "\n" + speed_table(result) + "\n" +
         power_text(plan, result);
}

nlohmann::ordered_json to_json(const StudyPlan& plan, const StudyResult& result,
                               const std::vector<StudyRecord>& records) {
  nlohmann::ordered_json json = {{"study", plan.name},
                                 {"first_seed", plan.first_seed},
                                 {"seeds", plan.settings.seeds},
                                 {"metric",
                                  {{"split", data::name_of(plan.metric.split)},
                                   {"name", plan.metric.name},
                                   {"larger_is_better", plan.metric.larger_is_better}}},
                                 {"margin", plan.settings.margin},
                                 {"level", records::kLevel},
                                 {"target", known_or_null(result.target)},
                                 {"optimum", known_or_null(result.optimum)},
                                 {"equal",
                                  {{"updates", known_or_null(result.updates)},
                                   {"examples", known_or_null(result.examples)},
                                   {"seconds", known_or_null(result.seconds)}}},
                                 {"deviation_of_differences", known_or_null(result.deviation)}};
  auto power = nlohmann::ordered_json::array();
  for (const auto& [seeds, chance] : result.power) power.push_back({{"seeds", seeds}, {"power", chance}});
  json["power"] = power;
  json["ways"] = nlohmann::ordered_json::array();
  for (const VariantResult& one : result.variants) json["ways"].push_back(variant_json(one));
  json["trainings"] = nlohmann::ordered_json::array();
  for (const StudyTraining& training : trainings_of(plan)) {
    for (const StudyRecord& record : records) {
      if (record.variant != training.variant->identity || record.seed != training.seed) continue;
      nlohmann::ordered_json one = nlohmann::ordered_json(to_json(record));
      one["folder"] = fmt::format("runs/{}/seed-{}", training.variant->folder, training.seed);
      json["trainings"].push_back(one);
    }
  }
  return json;
}

}  // namespace unisono::trials
