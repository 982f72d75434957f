#include "unisono/report/report.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "page.hpp"
#include "trials_history.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::report {
namespace {

namespace fs = std::filesystem;

/// Folders without the slash that shells complete.
std::vector<std::string> plain(std::vector<std::string> folders) {
  for (std::string& folder : folders) {
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  }
  return folders;
}

/// Says of the first folder that is no run what is wrong with it.
[[noreturn]] void refuse(const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    const records::FolderOwner owner = records::owner_of(folder);
    if (owner == records::FolderOwner::study) {
      throw CheckpointError(fmt::format(
          "{}: this study has not ended; finish it with 'unisono study CONFIG --resume', then report on it", folder));
    }
    if (owner == records::FolderOwner::search || owner == records::FolderOwner::cross_validation) {
      throw CheckpointError(
          fmt::format("{}: there is no page about a search or a cross-validation beside others; "
                      "report on it alone",
                      folder));
    }
    records::read_run(folder);
  }
  throw CheckpointError(fmt::format("{}: there is no report on these folders together", folders.front()));
}

const PageKind& kind_of(const std::vector<std::string>& folders) {
  for (const PageKind* kind : page_kinds()) {
    if (kind->fits(folders)) return *kind;
  }
  refuse(folders);
}

/// An earlier report may be replaced, and nothing else.
void require_replaceable(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  if (type == fs::file_type::not_found) return;
  std::string begin(kPageBegin.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (type == fs::file_type::regular && begin == kPageBegin) return;
  throw OutputError(fmt::format(
      "--output {}: exists and is not a report of this program, so it is not replaced; choose another file", path));
}

/// The page; JSON of other shapes than ours is reported as damage.
Page page_of(const PageKind& kind, const ReportOptions& options, Log& log) {
  try {
    return kind.make(options, log);
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError(
        fmt::format("{}: one of its JSON files is damaged: {}", options.folders.front(), error.what()));
  }
}

}  // namespace

void report(const ReportOptions& given, Log& log) {
  ReportOptions options = given;
  options.folders = plain(given.folders);
  if (options.output.empty()) {
    options.output = options.folders.size() == 1 ? options.folders.front() + "/report.html" : "report.html";
  }
  const PageKind& kind = kind_of(options.folders);
  require_replaceable(options.output);
  const std::string html = to_html(page_of(kind, options, log));
  const std::string reason = records::try_to_write_text_file(options.output, html);
  if (!reason.empty()) {
    throw OutputError(fmt::format("--output {}: cannot be written: {}; choose another file", options.output, reason));
  }
  log.info(fmt::format("{}: a report on {}, {} kB", options.output, kind.what, html.size() / 1000));
}

}  // namespace unisono::report
