#include "run/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <filesystem>

#include "run/summary.hpp"
#include "unisono/base/config.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/run_state.hpp"

namespace unisono::session {
namespace {

namespace fs = std::filesystem;

/// The sums of one rank.
struct Distance {
  std::int64_t different = 0;
  double squared = 0, squared_norm = 0, largest = 0;

  void add(View own, View other) {
    for (std::size_t i = 0; i < own.size(); ++i) {
      const double value = static_cast<double>(other[i]), difference = static_cast<double>(own[i]) - value;
      different += std::bit_cast<std::uint32_t>(own[i]) == std::bit_cast<std::uint32_t>(other[i]) ? 0 : 1;
      squared += difference * difference;
      squared_norm += value * value;
      largest = std::max(largest, std::abs(difference));
    }
  }
};

Distance distance_of(ModelParts& parts, const StoredCheckpoint& other) {
  const comm::Communicator& all = parts.grid.all();
  const StoredVector vector = parameters_of(parts);
  std::vector<Shard> shards = shards_to_write(vector, all.rank(), other.seen_by_all ? all.size() : 1);
  std::erase_if(shards, [&](const Shard& shard) {
    return vector.layout().blocks()[shard.block].role == Role::state || size_of(shard.box) == 0;
  });
  PlainValues values(*vector.memory, vector.values);
  Distance distance;
  std::vector<float> own;
  visit_shards(other.path, {"parameters"}, vector.layout(), shards, [&](const Shard& shard, View canonical) {
    own.resize(canonical.size());
    pack(shard.place, values.view(), own);
    distance.add(own, canonical);
  });
  return distance;
}

/// Metrics from the summary of the checkpoint's run, if the checkpoint is its last one.
nlohmann::ordered_json figures_of(const StoredCheckpoint& other) {
  const fs::path folder = fs::absolute(other.path).parent_path().parent_path();
  const auto summary = summary_after(other.header.step, folder.string());
  auto figures = nlohmann::ordered_json::object();
  for (const char* group : {"train", "validation", "test"}) {
    if (summary.contains(group)) figures[group] = summary[group];
  }
  return figures;
}

}  // namespace

StoredCheckpoint find_compared(const ModelParts& parts, const std::string& path, const std::string& own, Log& log) {
  std::error_code ignored;
  const bool same = parts.grid.all().is_root() &&
                    (fs::equivalent(path, own, ignored) ||
                     fs::equivalent(fs::path(path).parent_path(), records::checkpoints_of(own), ignored));
  if (same) {
    throw ConfigError(fmt::format(
        "--compare-with {}: this is the run's own folder; name the folder of another run, or choose another --output",
        path));
  }
  StoredCheckpoint other = find_checkpoint(parts.grid.all(), path, log);
  if (parts.grid.all().is_root()) {
    require_same_model(other.path, parts.model->layout(), parts.model->statistics_layout());
  }
  return other;
}

std::optional<Comparison> compare(ModelParts& parts, const StoredCheckpoint& other, Log& log) {
  Distance distance;
  std::string error;
  try {
    distance = distance_of(parts, other);
  } catch (const Error& caught) {
    error = caught.what();
  }
  comm::Communicator& all = parts.grid.all();
  const std::string first = all.first_text(error);
  if (!first.empty()) {
    if (all.is_root()) log.warning(fmt::format("not compared with {}: {}", other.path, first));
    return std::nullopt;
  }
  std::array<double, 2> sums = {distance.squared, distance.squared_norm};
  std::array<double, 1> largest = {distance.largest};
  all.allreduce_sum(sums);
  all.allreduce_max(largest);
  return Comparison{.checkpoint = other.path,
                    .step = other.header.step,
                    .different = all.sum(distance.different),
                    .relative_distance = sums[0] == 0 ? 0 : std::sqrt(sums[0] / sums[1]),
                    .largest_difference = largest[0],
                    .figures = all.is_root() ? figures_of(other) : nlohmann::ordered_json()};
}

nlohmann::ordered_json to_json(const Comparison& comparison) {
  nlohmann::ordered_json json = {{"checkpoint", comparison.checkpoint},
                                 {"step", comparison.step},
                                 {"different_parameters", comparison.different},
                                 {"relative_distance", comparison.relative_distance},
                                 {"largest_difference", comparison.largest_difference}};
  json.update(comparison.figures);
  return json;
}

std::string to_text(const Comparison& comparison) {
  std::string text =
      comparison.different == 0
          ? fmt::format("parameters equal those of {} bit for bit", comparison.checkpoint)
          : fmt::format("parameters differ by {:.3g} % of their norm from those of {}, and by at most {:.3g} each",
                        100 * comparison.relative_distance, comparison.checkpoint, comparison.largest_difference);
  for (const auto& [group, figures] : comparison.figures.items()) {
    text += text.find("; its results: ") == std::string::npos ? "; its results: " : "; ";
    text += group;
    for (const auto& [name, value] : figures.items()) {
      if (value.is_number()) text += fmt::format(" {} {:.4g}", name, value.get<double>());
    }
  }
  return text;
}

}  // namespace unisono::session
