#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace unisono::records {

/// The journal of a search's or cross-validation's trainings.
inline std::string trial_journal_of(const std::string& folder) { return folder + "/journal.jsonl"; }
/// The journal of a study.
inline std::string study_journal_of(const std::string& folder) { return folder + "/journal.txt"; }

/// What a job has done, line by line, in a file that is only appended to: a process that is killed loses at most the
/// line that it was writing. A line is a hash (16 hexadecimal digits), a blank, and one JSON object. The hash is that
/// of the previous line's hash and this line's text, so that a line that was changed, removed or added is found.
class Journal {
 public:
  /// Opens the file, or creates it, and locks it as long as this object lives. A last line that is cut off is removed.
  /// \param anew remove all lines
  /// \throws CheckpointError for a line that was changed; OutputError where the file cannot be written, or another
  /// process writes it
  explicit Journal(std::string path, bool anew = false);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  const std::string& path() const { return path_; }
  /// The lines that were there when it was opened.
  const std::vector<nlohmann::json>& entries() const { return *entries_; }
  /// \throws OutputError
  void append(const nlohmann::json& entry);

 private:
  void read();
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  int descriptor_ = -1;
  std::string last_hash_;
  std::unique_ptr<std::vector<nlohmann::json>> entries_;
};

/// The whole lines of a journal that another process may be writing.
/// \throws CheckpointError for a line that was changed, or where there is no such file
std::vector<nlohmann::json> read_journal(const std::string& path);

}  // namespace unisono::records
