#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "unisono/base/text.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/trials/study_analysis.hpp"

namespace unisono::trials {
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
  return fmt::format("{} × {}", one.variant->ranks, one.variant->threads());
}

std::string mean_text(const std::vector<double>& values) {
  if (values.empty()) return "—";
  return fmt::format("{:.4g} ± {:.2g}", records::mean_of(values), records::deviation_of(values));
}

/// Whether there is a difference whose interval means something.
bool has_difference(const VariantResult& one) {
  return one.judgement.verdict != records::Verdict::reference && one.judgement.difference.pairs > 1;
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
  nlohmann::ordered_json json = {
      {"name", one.variant->name},
      {"ranks", one.variant->ranks},
      {"threads", one.variant->threads()},
      {"strategy", one.variant->config.strategy.kind},
      {"folder", one.variant->folder},
      {"identity", one.variant->identity},
      {"trainings", one.trainings},
      {"diverged", one.diverged},
      {"verdict", name_of(one.judgement.verdict, records::kVerdicts)},
      {"verdict_text", verdict_of(one)},
      {"values", one.values},
      {"mean", one.values.empty() ? nlohmann::ordered_json() : known_or_null(records::mean_of(one.values))},
      {"deviation", records::deviation_of(one.values)}};
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
