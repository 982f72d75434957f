#include "unisono/records/folder_owner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "unisono/base/errors.hpp"
#include "unisono/records/journal.hpp"

namespace unisono::records {
namespace {

namespace fs = std::filesystem;

/// What messages say of an owner.
struct Words {
  std::string_view held;     ///< "{}: holds …"
  std::string_view go_on;    ///< "{}: already holds …"
  std::string_view nothing;  ///< "{}: …", where there is nothing to resume
};

Words words_of(FolderOwner owner) {
  if (owner == FolderOwner::run) {
    return {"a run", "a run; continue it (--resume), replace it (--overwrite)",
            "there is no run to resume; start one without --resume, or name its folder"};
  }
  if (owner == FolderOwner::study) {
    return {"a study", "a study; go on with it (--resume), replace it (--overwrite)",
            "there is no study to resume; start one without --resume, or name its folder"};
  }
  const std::string_view held = owner == FolderOwner::search             ? "a search"
                                : owner == FolderOwner::cross_validation ? "a cross-validation"
                                                                         : "trials";
  return {held, "trials; go on with them (--resume), replace them (--overwrite)",
          "there is nothing to resume; start without --resume, or name the folder"};
}

/// Whose trials a journal has, as its first line says.
FolderOwner owner_of_journal(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto first = nlohmann::json::parse(line.substr(std::min(line.size(), line.find(' '))), nullptr, false);
  const auto job = first.is_object() && first.contains("job") ? first.at("job") : nlohmann::json();
  return job == "search"             ? FolderOwner::search
         : job == "cross_validation" ? FolderOwner::cross_validation
                                     : FolderOwner::trials;
}

bool is_there(const std::string& folder, std::string_view name) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / name, ignored);
}

bool is_any_there(const std::string& folder, std::initializer_list<std::string_view> names) {
  return std::ranges::any_of(names, [&](std::string_view name) { return is_there(folder, name); });
}

}  // namespace

FolderOwner owner_of(const std::string& folder) {
  std::error_code ignored;
  if (fs::exists(study_journal_of(folder), ignored)) return FolderOwner::study;
  if (fs::exists(trial_journal_of(folder), ignored)) return owner_of_journal(trial_journal_of(folder));
  const bool is_run = is_any_there(folder, {".lock", "metrics.jsonl", "summary.json"}) ||
                      (is_there(folder, "config.toml") && is_there(folder, "checkpoints"));
  return is_run ? FolderOwner::run : FolderOwner::nobody;
}

bool holds_run(const std::string& folder) {
  return is_there(folder, "config.toml") && is_any_there(folder, {"checkpoints", "metrics.jsonl"}) &&
         owner_of(folder) == FolderOwner::run;
}

void require_owner(const std::string& folder, FolderOwner mine, Existing existing, bool has_results) {
  const FolderOwner owner = owner_of(folder);
  const bool is_mine = owner == mine || (makes_trials(owner) && makes_trials(mine));
  if (owner != FolderOwner::nobody && !is_mine) {
    throw OutputError(fmt::format("{}: holds {}; choose another folder (--output DIR)", folder, words_of(owner).held));
  }
  if (has_results && existing == Existing::refuse) {
    throw OutputError(
        fmt::format("{}: already holds {}, or choose another folder (--output DIR)", folder, words_of(mine).go_on));
  }
  if (!has_results && existing == Existing::resume) {
    throw CheckpointError(fmt::format("{}: {} with --output DIR", folder, words_of(mine).nothing));
  }
}

}  // namespace unisono::records
