#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runs/run_table.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/report/runs.hpp"

namespace unisono::report {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 4;  // folders below the one that is listed

std::string table_text(std::vector<records::RunRecord> runs, TableFormat format,
                       const std::vector<SkippedFolder>& skipped) {
  const RunTable table(std::move(runs));
  if (format == TableFormat::json) return to_json(table, skipped).dump() + "\n";
  return format == TableFormat::csv ? to_csv(table) : to_text(table);
}

/// Folders inside a folder, in the order of their names.
std::vector<std::string> folders_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, fs::directory_options::skip_permission_denied, error)) {
    if (entry.is_directory(error)) found.push_back((fs::path(folder) / entry.path().filename()).string());
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The runs in a folder and below it; a run's own folders are not looked into.
std::vector<std::string> runs_below(const std::string& folder, int depth) {
  if (records::holds_run(folder)) return {folder};
  std::vector<std::string> found;
  if (depth == 0) return found;
  for (const std::string& inner : folders_in(folder)) {
    const auto more = runs_below(inner, depth - 1);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

}  // namespace

std::string compare_runs(const std::vector<std::string>& runs, TableFormat format) {
  std::vector<records::RunRecord> records;
  for (const std::string& run : runs) {
    const bool slash = run.size() > 1 && run.ends_with('/');
    records.push_back(records::read_run(slash ? run.substr(0, run.size() - 1) : run));
  }
  return table_text(std::move(records), format, {});
}

std::string list_runs(const std::string& folder, TableFormat format, Log& log) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw CheckpointError(fmt::format("{}: there is no such folder; name one that holds runs", folder));
  }
  std::vector<std::string> found;
  std::vector<SkippedFolder> skipped;
  const bool is_run = records::holds_run(folder);
  for (const std::string& inner : is_run ? std::vector<std::string>{folder} : folders_in(folder)) {
    const auto runs = runs_below(inner, kDeepest - 1);
    if (runs.empty()) skipped.push_back({inner, "holds no runs"});
    found.insert(found.end(), runs.begin(), runs.end());
  }
  std::vector<records::RunRecord> records;
  for (const std::string& run : found) {
    try {
      records.push_back(records::read_run(run));
    } catch (const Error& error) {
      const std::string what = error.what();
      skipped.push_back({run, what.starts_with(run + ": ") ? what.substr(run.size() + 2) : what});
    }
  }
  for (const auto& [inner, reason] : skipped) log.warning(fmt::format("{}: {}; it is left out", inner, reason));
  if (records.empty() && format == TableFormat::text) return fmt::format("{}: holds no runs\n", folder);
  return table_text(std::move(records), format, skipped);
}

}  // namespace unisono::report
