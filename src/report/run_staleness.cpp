#include <fmt/format.h>

#include <algorithm>

#include "plot/bars.hpp"
#include "run_curves.hpp"
#include "run_sections.hpp"
#include "texts.hpp"
#include "unisono/base/text.hpp"

namespace unisono::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBars = 24;

std::vector<double> counts_of(const Json& staleness) {
  std::vector<double> counts;
  const auto found = staleness.find("counts");
  if (found == staleness.end() || !found->is_array()) return counts;
  for (const Json& count : *found) counts.push_back(count.is_number() ? count.get<double>() : 0);
  return counts;
}

/// How many updates were how stale; the last bar has all that were staler.
void add_histogram(Section& section, const Json& staleness) {
  std::vector<double> counts = counts_of(staleness);
  if (counts.empty()) return;
  std::vector<std::string> rows;
  for (std::size_t i = 0; i < std::min(counts.size(), kMostBars); ++i) rows.push_back(fmt::format("{}", i));
  if (counts.size() > kMostBars) {
    for (std::size_t i = kMostBars; i < counts.size(); ++i) counts[kMostBars - 1] += counts[i];
    counts.resize(kMostBars);
    rows.back() += " or more";
  }
  plot::BarPlot plot;
  plot.caption = {
      .title = "Staleness of updates",
      .description = fmt::format("{} updates behind on average, at most {}.", number_text(number_in(staleness, "mean")),
                                 number_text(number_in(staleness, "largest")))};
  plot.value.label = "updates that were so many others behind";
  plot.rows = rows;
  plot.series.push_back({.name = "", .values = counts});
  section.blocks.emplace_back(drawing_of(plot));
}

std::string cell(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? number_text(found->get<double>()) : "";
}

void add_servers(Section& section, const Json& serving) {
  Table servers{.caption = "Servers",
                .head = {"server", "rank", "shard bytes", "pulls", "pushes", "busy", "updates per second"},
                .rows = {}};
  for (const Json& one : serving.value("servers", Json::array())) {
    servers.rows.push_back({fmt::format("{}", servers.rows.size()), cell(one, "rank"), cell(one, "shard_bytes"),
                            cell(one, "pulls"), cell(one, "pushes"), share_text(number_in(one, "busy"), 1),
                            cell(one, "updates_per_second")});
  }
  if (!servers.rows.empty()) section.blocks.emplace_back(std::move(servers));
  Table workers{
      .caption = "Workers", .head = {"worker", "mean staleness", "largest staleness", "seconds held back"}, .rows = {}};
  for (const Json& one : serving.value("workers", Json::array())) {
    const Json staleness = one.value("staleness", Json::object());
    workers.rows.push_back({fmt::format("{}", workers.rows.size()), cell(staleness, "mean"), cell(staleness, "largest"),
                            cell(one, "held_seconds")});
  }
  if (!workers.rows.empty()) section.blocks.emplace_back(std::move(workers));
}

void add_curve(Section& section, const RunHistory& run, const std::string& curve, const std::string& title) {
  if (run.curve(curve).empty()) return;
  section.blocks.push_back(curves_drawing(title, epoch_label(run), {series_of(run, curve, "")}));
}

/// The numbers of an object and of those inside it, as rows.
void add_numbers(const Json& object, const std::string& path, Table& table) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) add_numbers(value, path + words_of(name) + ", ", table);
    if (value.is_number()) table.rows.push_back({path + words_of(name), number_text(value.get<double>())});
    if (value.is_string()) table.rows.push_back({path + words_of(name), value.get<std::string>()});
  }
}

}  // namespace

Section section_of_staleness(const RunHistory& run) {
  Section section{.title = "Staleness"};
  for (const char* kind : {"serving", "gossip", "sharing"}) {
    const auto found = run.summary.find(kind);
    if (found == run.summary.end() || !found->is_object()) continue;
    add_histogram(section, found->value("staleness", Json::object()));
    add_servers(section, *found);
  }
  add_curve(section, run, "train serving.staleness.mean", "Mean staleness");
  add_curve(section, run, "train gossip.staleness.mean", "Mean staleness");
  add_curve(section, run, "train consensus_distance", "Distance of the ranks from their mean");
  return section;
}

Section section_of_counters(const RunHistory& run) {
  Table table{.caption = "Other figures of the summary", .head = {"figure", "value"}, .rows = {}};
  for (const char* name : {"peak_memory_bytes", "gflops_per_second", "averaged_bytes", "node_averaged_bytes",
                           "passed_bytes", "row_conflict_rate", "compression", "gossip", "sharing", "pipeline",
                           "minimisation", "compared_with", "optimizer_state", "hashes"}) {
    const auto found = run.summary.find(name);
    if (found != run.summary.end()) add_numbers(Json{{name, *found}}, "", table);
  }
  if (table.rows.empty()) return {.title = "Other figures"};
  return {.title = "Other figures", .blocks = {std::move(table)}};
}

}  // namespace unisono::report
