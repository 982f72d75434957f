#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"

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
  /// \param anew whether all lines are removed
  /// \throws CheckpointError for a line that was changed; OutputError where the file cannot be written, or another
  /// process writes it
  explicit Journal(std::string path, bool anew = false);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  const std::string& path() const { return path_; }
  /// The lines that were there when the journal was opened.
  const std::vector<nlohmann::json>& entries() const { return *entries_; }
  /// Appends a line. \throws OutputError
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

/// One of the trainings that a job hands out to its ranks: of a trial, with one of its seeds, on one of its folds.
struct TrialRun {
  std::int64_t trial = 0;
  std::int64_t repeat = 0;  ///< which of the trial's seeds
  std::int64_t outer = -1;  ///< nested cross-validation: which of the outer folds; else −1
  std::int64_t fold = -1;   ///< which of the folds; −1: the examples are not divided into folds
  std::int64_t epochs = 0;  ///< epochs that the trial will have been trained for in all; 0: as the config says
  /// The trial with whose weights and optimizer the training begins; nothing: with its own.
  std::optional<std::int64_t> copied = {};
  bool refit = false;  ///< whether this is the training of the best trial on training and validation examples together

  bool operator==(const TrialRun&) const = default;
  /// Whether the training belongs to a search within an outer fold.
  bool is_nested() const { return outer >= 0; }
  /// The training for messages: "trial 7", "trial 7, repeat 1, fold 3".
  std::string text() const;
};

/// What ranks need to make a TrialRun.
struct TrialTask {
  TrialRun run;
  std::vector<std::string> overrides = {};  ///< changes of the job's config: "optimizer.learning_rate=0.1"
  std::string folder = {};                  ///< the run's folder; empty: the run leaves no files
  bool goes_on = false;                     ///< whether the run goes on from the folder's newest checkpoint
  std::string outputs = {};                 ///< file for the predictions of the validation examples; empty: none
  bool takes_over = false;                  ///< whether that checkpoint may have been made with other settings
};

/// How a training of a trial ended.
enum class TrialStatus {
  complete,
  diverged,
  refused,     ///< the trial's config cannot be trained
  failed,      ///< the training ran out of memory or time
  pruned,      ///< others were clearly better at the same epoch
  interrupted  ///< the job was asked to stop: no result
};

inline constexpr Named<TrialStatus> kTrialStatuses[] = {
    {TrialStatus::complete, "complete", ""}, {TrialStatus::diverged, "diverged", ""},
    {TrialStatus::refused, "refused", ""},   {TrialStatus::failed, "failed", ""},
    {TrialStatus::pruned, "pruned", ""},     {TrialStatus::interrupted, "interrupted", ""}};

/// A metric of the trained model.
struct MeasuredMetric {
  data::Split split = data::Split::validation;
  std::string name;
  double value = 0;
  bool larger_is_better = false;
  bool operator==(const MeasuredMetric&) const = default;
};

/// How a training ended.
struct TrialResult {
  TrialStatus status = TrialStatus::complete;
  std::string message = {};  ///< why, where it is not complete
  double value = 0;          ///< value of the metric that counts
  bool larger_is_better = false;
  std::vector<MeasuredMetric> metrics = {};
  std::int64_t epochs = 0, steps = 0;
  /// The training stopped early, and the model has the weights of this epoch; 0: it did not stop early.
  std::int64_t kept_epochs = 0;
  double seconds = 0;  ///< seconds from the training's start to its end
  /// Why a method for the whole training set ended before it converged; else empty.
  std::string short_of_convergence = {};

  /// The value as a loss: lower is better; infinite where there is no value.
  double loss() const;
};

nlohmann::json to_json(const TrialRun& training);
nlohmann::json to_json(const TrialTask& task);
nlohmann::json to_json(const TrialResult& result);
// \throws nlohmann::json::exception for what the functions above did not make
TrialRun trial_run_from(const nlohmann::json& json);
TrialTask task_from(const nlohmann::json& json);
TrialResult result_from(const nlohmann::json& json);

}  // namespace unisono::records
