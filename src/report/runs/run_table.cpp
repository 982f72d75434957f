#include "runs/run_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace unisono::report {
namespace {

/// Keys that identify a run but do not affect its training.
bool names_the_run(const std::string& key) { return key == "name" || key == "output"; }

std::vector<std::string> differing_keys(const std::vector<records::RunRecord>& runs) {
  std::set<std::string> keys, differing;
  for (const records::RunRecord& run : runs) {
    for (const auto& [key, value] : run.config) keys.insert(key);
  }
  for (const std::string& key : keys) {
    if (names_the_run(key) || key == "seed") continue;
    std::set<std::string> values;
    for (const records::RunRecord& run : runs) values.insert(run.config.contains(key) ? run.config.at(key) : "");
    if (values.size() > 1) differing.insert(key);
  }
  return {differing.begin(), differing.end()};
}

/// Losses first, in the order of the splits.
std::vector<std::string> metrics_of(const std::vector<records::RunRecord>& runs) {
  constexpr std::array splits = {"train ", "validation ", "test "};
  std::vector<std::string> names;
  for (const std::string split : splits) {
    std::set<std::string> own;
    for (const records::RunRecord& run : runs) {
      for (const auto& [name, value] : run.metrics) {
        if (name.starts_with(split)) own.insert(name);
      }
    }
    if (own.erase(split + "loss") > 0) names.push_back(split + "loss");
    names.insert(names.end(), own.begin(), own.end());
  }
  return names;
}

std::vector<SeedGroup> seed_groups(const std::vector<records::RunRecord>& runs) {
  std::map<std::map<std::string, std::string>, SeedGroup> alike;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].status != "complete" && runs[i].status != "converged") continue;
    std::map<std::string, std::string> what;
    for (const auto& [key, value] : runs[i].config) {
      if (!names_the_run(key) && key != "seed") what[key] = value;
    }
    what["ranks"] = std::to_string(runs[i].ranks);
    alike[what].push_back(i);
  }
  std::vector<SeedGroup> groups;
  for (const auto& [what, group] : alike) {
    std::set<std::string> seeds;
    for (const std::size_t run : group) seeds.insert(runs[run].seed());
    if (seeds.size() > 1) groups.push_back(group);
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

}  // namespace

MeanAndDeviation mean_and_deviation(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / count) * (value - sum / count);
  return {.mean = sum / count, .deviation = std::sqrt(squares / (count - 1))};
}

RunTable::RunTable(std::vector<records::RunRecord> records)
    : runs(std::move(records)), differing(differing_keys(runs)), metrics(metrics_of(runs)), groups(seed_groups(runs)) {
  std::set<std::string> seeds;
  for (const records::RunRecord& run : runs) seeds.insert(run.seed());
  seeds_differ = seeds.size() > 1;
}

std::string RunTable::value(std::size_t run, const std::string& key) const {
  const auto found = runs[run].config.find(key);
  return found == runs[run].config.end() ? "" : found->second;
}

}  // namespace unisono::report
