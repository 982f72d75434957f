#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "sections.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/metrics_log.hpp"

// What was predicted of a run, or simulated beside a formula.
namespace unisono::report {
namespace {

using Json = nlohmann::ordered_json;

std::string text_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string value_text(double value, const std::string& unit) {
  if (std::isnan(value)) return "";
  if (unit == "seconds") return unisono::duration_text(value);
  return unit == "bytes" ? fmt::format("{:.1f} MiB", value / 1024 / 1024) : grouped(std::llround(value));
}

/// What a file of the run folder says; where there is something of that name that says nothing, the section says so.
Json read_file(const RunHistory& run, const char* name, Section& section) {
  const std::string path = run.record.folder + "/" + name;
  Json found = records::read_object(path);
  std::error_code ignored;
  if (found.empty() && std::filesystem::exists(path, ignored)) {
    section.blocks.emplace_back(Paragraph{fmt::format("{} is damaged: it holds no JSON object", name)});
  }
  return found;
}

}  // namespace

Section section_of_prediction(const RunHistory& run) {
  Section section{.title = "Predicted and happened"};
  const Json found = read_file(run, "prediction.json", section);
  Table table{.caption = text_in(found, "title"), .head = {"", "predicted", "happened", "off by"}};
  for (const Json& part : found.value("parts", Json::array())) {
    if (!part.is_object()) continue;
    const double predicted = number_in(part, "predicted"), happened = number_in(part, "happened");
    const std::string unit = text_in(part, "unit");
    const double off = 100 * (predicted / happened - 1);
    table.rows.push_back({text_in(part, "part"), value_text(predicted, unit), value_text(happened, unit),
                          std::isfinite(off) ? fmt::format("{:+.0f} %", off) : ""});
  }
  if (table.rows.empty()) return section;
  section.blocks.emplace_back(std::move(table));
  if (const std::string note = text_in(found, "note"); !note.empty()) section.blocks.emplace_back(Paragraph{note});
  return section;
}

Section section_of_timeline(const RunHistory& run) {
  Section section{.title = "Ranks over time"};
  const Json found = read_file(run, "timeline.json", section);
  plot::Timeline timeline{
      .caption = {.title = "The first gradients of the first ranks",
                  .description =
                      "Between two gradients a rank waits for messages and for others, or updates parameters."},
      .time = {.label = "simulated seconds"},
      .rows = {},
      .kinds = {"gradient"},
      .blocks = {}};
  double until = std::numeric_limits<double>::infinity();  // which the drawing shows of all ranks
  for (const Json& rank : found.value("ranks", Json::array())) {
    const Json gradients = rank.is_object() ? rank.value("gradients", Json::array()) : Json::array();
    const std::size_t row = timeline.rows.size();
    for (const Json& span : gradients) {
      if (!span.is_array() || span.size() != 2 || !span[0].is_number() || !span[1].is_number()) continue;
      const double start = span[0].get<double>(), end = span[1].get<double>();
      if (!(end >= start)) continue;
      timeline.blocks.push_back({.row = row, .start = start, .end = end, .title = duration_text(end - start)});
    }
    if (timeline.blocks.empty() || timeline.blocks.back().row != row) continue;
    timeline.rows.push_back(fmt::format("rank {:.0f}", number_in(rank, "rank")));
    until = std::min(until, timeline.blocks.back().end);
  }
  std::erase_if(timeline.blocks, [until](const plot::TimeBlock& block) { return block.end > until; });
  if (!timeline.blocks.empty()) section.blocks.emplace_back(drawing_of(timeline));
  return section;
}

Section section_of_failures(const RunHistory& run) {
  Section section{.title = "Failures"};
  const Json found = read_file(run, "failures.json", section);
  const Json shares = found.value("shares", Json::object());
  Table costs{.caption = "What failures of simulated hosts cost", .head = {"", "share of the time"}};
  const auto add = [&](const std::string& what, const char* name) {
    if (const double share = number_in(shares, name); std::isfinite(share))
      costs.rows.push_back({what, fmt::format("{:.1f} %", 100 * share)});
  };
  add("checkpoints", "checkpoints");
  add("work that was made again", "made_again");
  add("until the ranks trained again", "restarts");
  add("in all", "lost");
  add("to be expected (Young 1974)", "expected");
  if (costs.rows.empty()) return section;
  section.blocks.emplace_back(std::move(costs));
  Table table{.caption = "Failures", .head = {"at", "went on from step"}};
  for (const Json& failure : found.value("events", Json::array())) {
    if (failure.is_object())
      table.rows.push_back({duration_text(number_in(failure, "seconds")),
                            grouped(std::llround(std::max(0.0, number_in(failure, "step"))))});
  }
  if (!table.rows.empty()) section.blocks.emplace_back(std::move(table));
  return section;
}

}  // namespace unisono::report
