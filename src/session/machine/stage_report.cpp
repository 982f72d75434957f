#include "unisono/session/stage_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "unisono/base/text.hpp"
#include "unisono/parallel/placement.hpp"

namespace unisono::session {
namespace {

const std::vector<std::string> kVectors = {"parameters and gradient", "optimizer state", "averaged weights"};
const std::vector<std::string> kActivations = {"activations and their gradients"};

parallel::ReplicaSettings by_hand(const StagePlan& plan, const PlacedModel& placed) {
  parallel::ReplicaSettings settings = plan.with(placed.sizes).replica;
  settings.placement.first_layers = plan.first_layers(placed.placement.cuts);
  settings.recompute = placed.placement.recompute;
  return settings;
}

}  // namespace

std::int64_t StageReport::Stage::bytes_of(const std::vector<std::string>& kinds) const {
  std::int64_t bytes = 0;
  for (const MemoryItem& item : memory) {
    if (std::ranges::find(kinds, item.what) != kinds.end()) bytes += item.bytes;
  }
  return bytes;
}

StageReport::StageReport(const StagePlan& plan, const PlacedModel& placed)
    : placed_(placed),
      replicas_(plan.replicas(placed.sizes.stages)),
      forecast_(parallel::forecast(placed.problem, placed.placement)),
      assumes_speed_(plan.abilities().gflops.empty() && plan.abilities().seconds.empty()) {
  const parallel::ReplicaSettings settings = by_hand(plan, placed);
  const parallel::Stages stages(plan.staged(), settings, 1);
  for (int stage = 0; stage < stages.stages(); ++stage) {
    const auto number = static_cast<std::size_t>(stage);
    const int rank = placed.placement.ranks[number];
    stages_.push_back({.layers = stages.text_of(stage),
                       .cost = stages.cost_of(stage),
                       .flights = parallel::flights_of(settings, stage, placed.problem.micro_batches).most,
                       .rank = rank,
                       .memory = plan.memory(placed.sizes, placed.placement, stage),
                       .limit = placed.problem.limits[static_cast<std::size_t>(rank)],
                       .busy = forecast_.busy[number]});
  }
}

std::int64_t StageReport::peak_memory_bytes() const {
  std::int64_t most = 0;
  for (const Stage& stage : stages_) most = std::max(most, sum(stage.memory));
  return most;
}

/// A row for each kind of memory, a column for each stage.
std::string StageReport::memory_text() const {
  std::string text = fmt::format("peak memory of a rank, predicted: {}\n", bytes_text(double(peak_memory_bytes())));
  for (const MemoryItem& kind : stages_.front().memory) {
    text += fmt::format("  {:32}", kind.what);
    for (const Stage& stage : stages_) text += fmt::format(" {:>12}", bytes_text(double(stage.bytes_of({kind.what}))));
    text += "\n";
  }
  const auto row = [&](const char* name, const auto& value) {
    text += fmt::format("  {:32}", name);
    for (const Stage& stage : stages_) text += fmt::format(" {:>12}", bytes_text(value(stage)));
    text += "\n";
  };
  row("all", [](const Stage& stage) { return static_cast<double>(sum(stage.memory)); });
  if (std::ranges::all_of(stages_, [](const Stage& stage) { return std::isfinite(stage.limit); })) {
    row("limit of its rank", [](const Stage& stage) { return stage.limit; });
  }
  return text;
}

std::string StageReport::step_text() const {
  std::string text = fmt::format(
      "a step of {} in {} micro-batch{} on {} takes {}, predicted{}; stages wait for {:.1f} % of it",
      count_of(placed_.sizes.batch_size, "example"), placed_.sizes.micro_batches,
      placed_.sizes.micro_batches == 1 ? "" : "es", count_of(replicas_, "replica"), duration_text(forecast_.seconds),
      assumes_speed_ ? fmt::format(" for ranks of {} GFLOP/s", kAssumedGflops) : std::string(), 100 * forecast_.bubble);
  if (forecast_.formula) text += fmt::format("; of equal stages {}", duration_text(*forecast_.formula));
  return text + "\n" + forecast_.timeline;
}

std::string StageReport::text() const {
  std::string text = fmt::format("{:5}  {:>4}  {:>12}  {:>14}  {:>6}  {:>12}  {:>7}  {:>12}  layers\n", "stage", "rank",
                                 "parameters", "flops/example", "share", "θ, g, state", "flights", "activations");
  double flops = 0;
  for (const Stage& stage : stages_) flops += stage.cost.flops();
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const Stage& stage = stages_[i];
    text += fmt::format("{:5}  {:>4}  {:>12}  {:>14}  {:>4.1f} %  {:>12}  {:>7}  {:>12}  {}\n", i, stage.rank,
                        grouped(stage.cost.parameters), grouped(static_cast<std::int64_t>(stage.cost.flops())),
                        100 * stage.cost.flops() / std::max(flops, 1.0),
                        bytes_text(static_cast<double>(stage.bytes_of(kVectors))), stage.flights,
                        bytes_text(static_cast<double>(stage.bytes_of(kActivations))), stage.layers);
  }
  text += memory_text() + step_text();
  while (text.ends_with('\n')) text.pop_back();
  return text + "\n";
}

nlohmann::ordered_json StageReport::stages_json() const {
  double flops = 0;
  for (const Stage& stage : stages_) flops += stage.cost.flops();
  auto json = nlohmann::ordered_json::array();
  for (const Stage& stage : stages_) {
    nlohmann::ordered_json one = {{"layers", stage.layers},
                                  {"rank", stage.rank},
                                  {"parameters", stage.cost.parameters},
                                  {"flops_per_example", stage.cost.flops()},
                                  {"flops_share", stage.cost.flops() / std::max(flops, 1.0)},
                                  {"vectors_bytes", stage.bytes_of(kVectors)},
                                  {"flights", stage.flights},
                                  {"activation_bytes", stage.bytes_of(kActivations)},
                                  {"busy_seconds", stage.busy},
                                  {"peak_memory_bytes", sum(stage.memory)}};
    if (std::isfinite(stage.limit)) one["limit_bytes"] = stage.limit;
    for (const MemoryItem& item : stage.memory) one["memory"][item.what] = item.bytes;
    json.push_back(std::move(one));
  }
  return json;
}

nlohmann::ordered_json StageReport::step_json() const {
  nlohmann::ordered_json json = {{"replicas", replicas_},
                                 {"batch_size", placed_.sizes.batch_size},
                                 {"micro_batches", placed_.sizes.micro_batches},
                                 {"recomputes", placed_.placement.recompute == parallel::Recompute::all},
                                 {"fits", placed_.fits()},
                                 {"seconds", forecast_.seconds},
                                 {"bubble", forecast_.bubble}};
  if (forecast_.formula) json["formula_seconds"] = *forecast_.formula;
  double bytes = 0;
  for (const double sent : forecast_.bytes_sent) bytes += sent;
  json["bytes_sent"] = bytes * replicas_;
  return json;
}

}  // namespace unisono::session
