#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "page.hpp"
#include "plot/frame.hpp"
#include "plot/plots.hpp"
#include "sections.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/trials/study_analysis.hpp"

namespace unisono::report {
namespace {

using Json = nlohmann::ordered_json;

/// study.json, as study/tables.cpp writes it.
struct StudyHistory {
  std::string folder;
  Json json;

  const Json& variants() const { return json.at("ways"); }
  std::string metric() const {
    const Json& metric = json.at("metric");
    return metric.at("split").get<std::string>() + " " + words_of(metric.at("name").get<std::string>());
  }
};

StudyHistory read_study(const std::string& folder) {
  return {.folder = folder, .json = Json::parse(std::ifstream(folder + "/study.json"))};
}

std::string cores_of(const Json& variant) {
  return fmt::format("{} × {}", variant.at("ranks").get<int>(), variant.at("threads").get<int>());
}

/// "averaging, period 16, 2 × 1": the name, ranks × threads
std::string name_of_variant(const Json& variant) {
  return fmt::format("{}, {}", variant.at("name").get<std::string>(), cores_of(variant));
}

std::string text_in(const Json& object, const char* name) {
  const double number = number_in(object, name);
  return std::isnan(number) ? "" : number_text(number);
}

std::string percent_in(const Json& object, const char* name, int digits) {
  const double share = number_in(object, name);
  return std::isnan(share) ? "" : fmt::format("{:.{}f} %", 100 * share, digits);
}

Table facts_of(const StudyHistory& study) {
  const Json& json = study.json;
  Table table{.caption = "The study"};
  const auto add = [&](std::string name, std::string value) {
    table.rows.push_back({std::move(name), std::move(value)});
  };
  add("ways", grouped(std::ssize(study.variants())));
  const auto first = json.at("first_seed").get<std::int64_t>(), seeds = json.at("seeds").get<std::int64_t>();
  add("seeds", fmt::format("{} to {}", first, first + seeds - 1));
  add("compared by", fmt::format("{}; {} is better", study.metric(),
                                 json.at("metric").at("larger_is_better").get<bool>() ? "larger" : "smaller"));
  const double margin = number_in(json, "margin");
  add("margin", margin > 0 ? fmt::format("± {:g}", margin) : "none: no way is called equivalent");
  add("deviation of differences", text_in(json, "deviation_of_differences"));
  for (const Json& one : json.at("power")) {
    add(fmt::format("chance to find the margin with {} seeds", one.at("seeds").get<int>()),
        percent_in(one, "power", 0));
  }
  if (!std::isnan(number_in(json, "optimum")))
    add("minimum, by L-BFGS", fmt::format("{:.8g}", number_in(json, "optimum")));
  return table;
}

/// As in study.md.
std::string p_text(const Json& variant) {
  const auto verdict = variant.at("verdict").get<std::string>();
  const double p = number_in(variant.at("difference"), "p_adjusted");
  if (std::isnan(p) || verdict.starts_with("equal ") || verdict == "diverged") return "—";
  return p < 0.001 ? "< 0.001" : fmt::format("{:.3f}", p);
}

Table verdicts_table(const StudyHistory& study) {
  Table table{
      .caption = "Does it reach the state of the serial run?",
      .head = {"way", "ranks × threads", "verdict", study.metric(), "deviation", "difference", "95 % interval", "p"}};
  for (const Json& variant : study.variants()) {
    std::vector<std::string> row = {variant.at("name").get<std::string>(), cores_of(variant),
                                    variant.at("verdict_text").get<std::string>(), text_in(variant, "mean"),
                                    text_in(variant, "deviation")};
    if (variant.contains("difference")) {
      const Json& difference = variant.at("difference");
      row.insert(row.end(),
                 {text_in(difference, "mean"),
                  fmt::format("{} to {}", text_in(difference, "low"), text_in(difference, "high")), p_text(variant)});
    } else {
      row.insert(row.end(), {"", "", ""});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

/// Verdicts have colours of their own: those that are as good as the serial run, better, worse, open.
struct VerdictKey {
  const char* name;
  std::size_t colour;
};
VerdictKey key_of(const std::string& verdict) {
  if (verdict.starts_with("equal") || verdict == "equivalent") return {"equal or equivalent", 2};
  if (verdict == "better") return {"better", 0};
  if (verdict == "worse" || verdict == "diverged") return {"worse", 1};
  return {"too few seeds to tell", 6};
}

/// "Of 5 ways, 2 equal the serial run (…), 1 is worse (…) and 1 diverged (…)."
std::string summary_of(const StudyHistory& study) {
  struct Group {
    const char *one, *several;
    std::vector<std::string> names = {};
  };
  std::vector<Group> groups = {
      {"equals the serial run", "equal the serial run"},
      {"is equivalent to the serial run within the margin", "are equivalent to the serial run within the margin"},
      {"is better", "are better"},
      {"is worse", "are worse"},
      {"diverged", "diverged"},
      {"is undefined for some seeds", "are undefined for some seeds"},
      {"is undecided", "are undecided"}};
  std::size_t ways = 0;
  for (const Json& variant : study.variants()) {
    const auto verdict = variant.at("verdict").get<std::string>();
    if (verdict == "reference") continue;
    ++ways;
    const std::size_t group = verdict.starts_with("equal") ? 0
                              : verdict == "equivalent"    ? 1
                              : verdict == "better"        ? 2
                              : verdict == "worse"         ? 3
                              : verdict == "diverged"      ? 4
                              : verdict == "undefined"     ? 5
                                                           : 6;
    groups[group].names.push_back(name_of_variant(variant));
  }
  std::vector<std::string> parts;
  for (const Group& group : groups) {
    if (group.names.empty()) continue;
    parts.push_back(fmt::format("{} {} ({})", group.names.size(), group.names.size() == 1 ? group.one : group.several,
                                fmt::join(group.names, "; ")));
  }
  std::string text = fmt::format("Of {}, ", count_of(static_cast<std::int64_t>(ways), "way"));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
  }
  return text + ".";
}

void add_differences(Section& section, const StudyHistory& study) {
  plot::IntervalPlot plot;
  plot.caption = {.title = fmt::format("Difference from the serial run: {}", study.metric()),
                  .description = "The mean difference of each way with its 95 % interval; the margin is shaded."};
  plot.value.label = "difference, way − serial run";
  plot.width = 545;
  plot.reference = 0;
  if (const double margin = number_in(study.json, "margin"); margin > 0) plot.margin = plot::Range{-margin, margin};
  std::set<std::size_t> keys;
  for (const Json& variant : study.variants()) {
    if (!variant.contains("difference")) continue;
    const Json& difference = variant.at("difference");
    const VerdictKey key = key_of(variant.at("verdict").get<std::string>());
    if (keys.insert(key.colour).second) plot.keys.push_back({.name = key.name, .colour = plot::colour_of(key.colour)});
    plot.intervals.push_back(
        {.row = name_of_variant(variant),
         .value = number_in(difference, "mean"),
         .low = number_in(difference, "low"),
         .high = number_in(difference, "high"),
         .colour = key.colour,
         .title = fmt::format("{}: {}", name_of_variant(variant), variant.at("verdict_text").get<std::string>())});
  }
  if (!plot.intervals.empty()) section.blocks.emplace_back(drawing_of(plot));
}

Section section_of_verdicts(const StudyHistory& study) {
  Section section{.title = "Verdicts", .blocks = {Paragraph{summary_of(study)}, verdicts_table(study)}};
  add_differences(section, study);
  section.blocks.emplace_back(facts_of(study));
  section.blocks.emplace_back(Paragraph{
      fmt::format("Paired tests over the same seeds at a level of {:g} %, corrected for the number of ways (Holm).",
                  100 * number_in(study.json, "level"))});
  return section;
}

Section section_of_distances(const StudyHistory& study) {
  Table table{.caption = "How far from the serial run of the same seed?",
              .head = {"way", "ranks × threads", "parameters, of their norm", "largest", "outputs", "other class",
                       "loss", "above the minimum"}};
  for (const Json& variant : study.variants()) {
    const Json& distance = variant.at("distance");
    const bool is_serial = variant.at("verdict") == "reference";
    table.rows.push_back({is_serial ? "serial, between seeds" : variant.at("name").get<std::string>(),
                          cores_of(variant), text_in(distance, "relative"), text_in(distance, "largest"),
                          text_in(distance, "predictions"), percent_in(distance, "classes", 2),
                          text_in(distance, "loss"), text_in(distance, "above_optimum")});
  }
  return {.title = "Distances", .blocks = {std::move(table)}};
}

Table speed_table(const StudyHistory& study) {
  const Json& equal = study.json.at("equal");
  const auto at = [&](const char* what) { return fmt::format("at {} {}", text_in(equal, what), what); };
  Table table{
      .caption = "How much faster?",
      .head = {"way", "ranks × threads", "training, median seconds", "speed-up", "efficiency", at("updates"),
               at("examples"), at("seconds"), "seconds to " + text_in(study.json, "target"), "seeds that reach it"}};
  for (const Json& variant : study.variants()) {
    const Json& at_equal = variant.at("at_equal");
    table.rows.push_back({variant.at("name").get<std::string>(), cores_of(variant),
                          text_in(variant, "training_seconds"), text_in(variant, "speed_up"),
                          percent_in(variant, "efficiency", 0), text_in(at_equal, "updates"),
                          text_in(at_equal, "examples"), text_in(at_equal, "seconds"),
                          text_in(variant, "seconds_to_target"), text_in(variant, "reached_target")});
  }
  return table;
}

Section section_of_speed(const StudyHistory& study) {
  Section section{.title = "Speed"};
  plot::BarPlot speed;
  speed.caption = {.title = "Speed-up",
                   .description = "Median seconds of training of the serial run over those of each way."};
  speed.value.label = "times as fast as the serial run";
  speed.series = {{.name = "", .values = {}}};
  speed.width = 545;
  std::vector<std::string> rows;
  std::vector<Seconds> seconds;
  for (const Json& variant : study.variants()) {
    const std::string name = name_of_variant(variant);
    Seconds parts;
    for (const SecondsPart& part : kSecondsParts) {
      const double value = number_in(variant.at("seconds"), std::string(part.name).c_str());
      parts.*part.value = value > 0 ? value : 0;
    }
    parts.evaluation = parts.checkpoint = 0;
    if (const double factor = number_in(variant, "speed_up"); factor > 0) {
      speed.rows.push_back(name);
      speed.series.front().values.push_back(factor);
    }
    if (parts.sum() == 0) continue;  // it diverged
    rows.push_back(name);
    seconds.push_back(parts);
  }
  if (!speed.rows.empty()) section.blocks.emplace_back(drawing_of(speed));
  section.blocks.emplace_back(drawing_of(time_plot("Where the time goes, without evaluations", rows, seconds)));
  section.blocks.emplace_back(speed_table(study));
  section.blocks.emplace_back(
      Paragraph{"All seconds are of training, without evaluations and checkpoints. The table has the medians of the "
                "seeds; the bars of where the time goes are the means."});
  return section;
}

/// The curves of a variant's trainings, one a seed.
std::vector<std::vector<trials::CurvePoint>> curves_of(const StudyHistory& study, const std::string& variant) {
  std::vector<std::vector<trials::CurvePoint>> curves;
  for (const Json& training : study.json.at("trainings")) {
    if (training.at("way") != variant || training.at("curve").empty()) continue;
    std::vector<trials::CurvePoint>& curve = curves.emplace_back();
    for (const Json& point : training.at("curve")) {
      curve.push_back({.updates = point.at(0).get<double>(),
                       .examples = point.at(1).get<double>(),
                       .seconds = point.at(2).get<double>(),
                       .value = point.at(3).is_number() ? point.at(3).get<double>() : std::nan("")});
    }
  }
  return curves;
}

/// The mean over seeds where all of them have a value, in a band from the least to the largest.
plot::Series mean_curve(const std::vector<std::vector<trials::CurvePoint>>& curves, double trials::CurvePoint::*axis) {
  plot::Series mean;
  for (const trials::CurvePoint& point : curves.front()) {
    double sum = 0, low = std::numeric_limits<double>::infinity(), high = -low;
    for (const auto& curve : curves) {
      const double value = trials::value_at(curve, axis, point.*axis);
      sum += value;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    if (!std::isfinite(sum)) continue;
    mean.x.push_back(point.*axis);
    mean.y.push_back(sum / static_cast<double>(curves.size()));
    mean.low.push_back(low);
    mean.high.push_back(high);
  }
  return mean;
}

Section section_of_curves(const StudyHistory& study) {
  Section section{.title = "Curves"};
  const std::vector<std::pair<std::string, double trials::CurvePoint::*>> axes = {
      {"updates", &trials::CurvePoint::updates},
      {"examples", &trials::CurvePoint::examples},
      {"seconds", &trials::CurvePoint::seconds}};
  for (const auto& [name, axis] : axes) {
    plot::XyPlot plot;
    plot.caption = {.title = fmt::format("{} over {}", study.metric(), name),
                    .description = "The mean over seeds; the band is from the least to the largest."};
    plot.x.label = name;
    plot.x.minimum = 0;
    for (std::size_t i = 0; i < study.variants().size(); ++i) {
      const Json& variant = study.variants()[i];
      const auto curves = curves_of(study, variant.at("identity").get<std::string>());
      if (curves.empty()) continue;
      plot::Series series = mean_curve(curves, axis);
      series.name = name_of_variant(variant);
      series.colour = i;
      if (series.x.size() > 0) plot.series.push_back(std::move(series));
    }
    if (plot.series.empty()) continue;
    plot.y = axis_for(plot.series);
    plot.width = 545;
    section.blocks.emplace_back(drawing_of(plot));
  }
  return section;
}

Section section_of_trainings(const StudyHistory& study) {
  Table table{
      .caption = "Trainings",
      .head = {"way", "ranks × threads", "seed", study.metric(), "loss", "steps", "seconds of training", "why not"}};
  for (const Json& training : study.json.at("trainings")) {
    const auto variant = std::find_if(study.variants().begin(), study.variants().end(),
                                      [&](const Json& one) { return one.at("identity") == training.at("way"); });
    if (variant == study.variants().end()) continue;
    const Json& parts = training.at("seconds");
    const double seconds = number_in(parts, "total") - number_in(parts, "evaluation") - number_in(parts, "checkpoint");
    table.rows.push_back({variant->at("name").get<std::string>(), cores_of(*variant),
                          fmt::format("{}", training.at("seed").get<std::int64_t>()), text_in(training, "value"),
                          text_in(training, "loss"), text_in(training, "steps"),
                          std::isnan(seconds) ? "" : number_text(seconds), training.value("message", "")});
  }
  return {.title = "Trainings", .blocks = {std::move(table)}};
}

Page study_page(const ReportOptions& options, Log&) {
  const StudyHistory study = read_study(options.folders.front());
  Page page{.title = study.json.at("study").get<std::string>(),
            .subtitle = fmt::format("A study of unisono: the serial run and {}, {} each",
                                    count_of(std::ssize(study.variants()) - 1, "variant"),
                                    count_of(study.json.at("seeds").get<std::int64_t>(), "seed"))};
  page.add(section_of_verdicts(study));
  page.add(section_of_distances(study));
  page.add(section_of_speed(study));
  page.add(section_of_curves(study));
  page.add(section_of_trainings(study));
  return page;
}

}  // namespace

const PageKind kStudyPage = {.what = "a study",
                             .fits =
                                 [](const auto& folders) {
                                   std::error_code ignored;
                                   return folders.size() == 1 &&
                                          std::filesystem::exists(folders.front() + "/study.json", ignored);
                                 },
                             .make = study_page};

}  // namespace unisono::report
