#include "checkpoint/checkpoint_store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"

namespace unisono::session {

void LocalCheckpointCounts::describe(CounterVisitor& visitor) {
  const CounterGroup group(visitor, "local_checkpoints");
  visitor.count({.name = "copied"}, copied);
  visitor.count({.name = "given_up"}, given_up);
  visitor.count({.name = "direct"}, direct);
}

std::string LocalCheckpointCounts::text(const CounterTerms&) const {
  std::string text = fmt::format("  checkpoints {} copied from the local disk", copied);
  if (given_up > 0) text += fmt::format("; {} given up for newer ones", given_up);
  if (direct > 0) text += fmt::format("; {} written to the run folder at once", direct);
  return text + "\n";
}

CheckpointStore::CheckpointStore(comm::Communicator& group, const std::string& folder,
                                 const settings::CheckpointSettings& settings, Log* log)
    : group_(group), folder_(folder, settings.keep), settings_(settings), log_(log) {
  if (group_.is_root()) folder_.make();
  if (settings_.memory_every_steps > 0) copies_ = std::make_unique<MemoryCopies>(group_, folder);
  if (settings_.local.empty()) return;
  if (group_.max(group_.node()) > 0) messages_ = group_.split(0, group_.rank());
  if (group_.is_root()) {
    drain_ = std::make_unique<CheckpointDrain>(folder_, [this](const std::string& text) { warn(text); });
  }
}

/// Also called by the drain's thread.
void CheckpointStore::warn(const std::string& text) const {
  try {
    if (log_ != nullptr) log_->warning(text);
  } catch (const OutputError&) {
    // The log's file is in the run folder, too. The line is on the terminal.
  }
}

void CheckpointStore::write(const CheckpointHeader& header, const StoredVectors& state, bool best) {
  finish_writing();
  step_ = header.step;
  best_ = best;
  // What an earlier start has left on a local disk alone is older than what is written now.
  if (!std::exchange(begun_, true) && group_.is_root()) forget_local_checkpoints(folder_.path());
  if (!settings_.local.empty()) {
    try {
      writing_.emplace(group_, local_target(), std::make_unique<StateContents>(header, state, snapshot_));
      return;
    } catch (const FailedWriting& error) {
      leave_local_disk(error);
    }
  }
  writing_.emplace(group_, shared_target(), std::make_unique<StateContents>(header, state, snapshot_));
}

void CheckpointStore::copy_to_memory(const CheckpointHeader& header, const StoredVectors& state) {
  if (!copies_) return;
  copies_->write(header, state);
  warn_of_copies();
}

void CheckpointStore::require_room(const StoredVectors& state) const {
  if (copies_) copies_->require_room(state);
}

void CheckpointStore::warn_of_copies() {
  const std::string failure = copies_->take_failure();
  if (failure.empty() || !group_.is_root()) return;
  warn(fmt::format("checkpoint.memory_every_steps: {}; no more copies are kept in the nodes' memory", failure));
}

CheckpointTarget CheckpointStore::shared_target() const {
  return {.path = folder_.of_step(step_),
          .publish = [this, step = step_, best = best_](const auto& aside) { folder_.publish(aside, step, best); },
          .messages = messages_.get(),
          .in_background = settings_.in_background};
}

CheckpointTarget CheckpointStore::local_target() {
  LocalCheckpoint one;
  std::string error;
  if (group_.is_root()) {
    try {
      begin_local_folder();
      one = local_checkpoint(local_folder_, ++locals_, step_, best_);
    } catch (const std::exception& caught) {
      error = caught.what();
    }
  }
  error = group_.broadcast_text(error);
  if (!error.empty()) throw FailedWriting(error, error);
  const auto publish = [this, one](const std::string& aside) {
    sync_and_rename(aside, one.path);
    drain_->add(one);
  };
  return {.path = group_.broadcast_text(one.path), .publish = publish, .messages = messages_.get(), .local = true};
}

void CheckpointStore::begin_local_folder() {
  if (!local_folder_.empty()) return;
  const std::string folder = make_local_folder(settings_.local);
  try {
    write_local_note(folder_.path(), {group_.host(), folder});
  } catch (...) {
    remove_local_folder(folder);
    throw;
  }
  local_folder_ = folder;
  local_lock_ = lock_local_folder(folder);
}

/// For one checkpoint, which must not overtake older ones that are still copied.
void CheckpointStore::leave_local_disk(const FailedWriting& error) {
  if (group_.is_root()) {
    ++direct_;
    if (!std::exchange(warned_of_disk_, true)) {
      warn(fmt::format("checkpoint.local: {}; what cannot be written there is written to the run folder at once",
                       error.reason));
    }
  }
  finish_copying();
  if (drain_) drain_->take_loss();  // this checkpoint is newer
}

void CheckpointStore::advance() {
  if (copies_) {
    copies_->advance();
    warn_of_copies();
  }
  if (!writing_) return;
  try {
    if (!writing_->advance()) return;
    writing_.reset();
    written_ = step_;
  } catch (const FailedWriting& error) {
    if (!writing_->is_local()) throw;
    leave_local_disk(error);
    writing_->start_again(shared_target());
  }
}

void CheckpointStore::finish_writing() {
  while (writing_) {
    writing_->wait_a_little();
    advance();
  }
}

void CheckpointStore::finish() {
  finish_writing();
  if (!settings_.local.empty()) {
    finish_copying();
    require_copied(drain_ ? drain_->take_loss() : "");
  }
  if (!copies_) return;
  copies_->finish();
  warn_of_copies();
  if (copies_->newest_step() <= written_) copies_->remove();
}

/// Afterwards nothing is on the local disk alone.
void CheckpointStore::finish_copying() {
  if (drain_) drain_->retry();
  wait_for(drain_.get());
  require_copied(drain_ ? drain_->failure() : "");
  if (local_folder_.empty()) return;
  local_lock_ = OpenFile();
  forget_local_checkpoints(folder_.path());
  local_folder_.clear();
}

/// All ranks meet all the time, because a rank that waits for another one does so for a limited time.
void CheckpointStore::wait_for(const CheckpointDrain* drain) {
  constexpr std::chrono::milliseconds kMoment{100};
  constexpr int kSilent = 20;  // moments
  for (int moment = 0;; ++moment) {
    if (drain != nullptr) drain->wait_for(kMoment);
    if (group_.max(drain != nullptr && drain->is_busy() ? 1 : 0) == 0) return;
    if (moment != kSilent || drain == nullptr || log_ == nullptr) continue;
    log_->info(fmt::format("waiting until the last checkpoints are in the run folder: {:.1f} MB are on the way",
                           static_cast<double>(drain->waiting_bytes()) * 1e-6));
  }
}

/// \param problem this rank's; empty: there is none
void CheckpointStore::require_copied(const std::string& problem) {
  const std::string first = group_.first_text(problem);
  if (!first.empty())
    throw OutputError(fmt::format("{}: a checkpoint could not be copied there: {}", folder_.path(), first));
}

void CheckpointStore::count(CounterSet& counters) const {
  if (copies_) counters.of<MemoryCopyCounts>() = {group_.is_root() ? copies_->made() : 0};
  if (settings_.local.empty()) return;
  auto& counts = counters.of<LocalCheckpointCounts>();
  if (drain_) counts = {drain_->copied(), drain_->given_up(), direct_};
}

void CheckpointStore::recover(Log& log) {
  recover_from_disk(log);
  recover_from_memory(log);
}

void CheckpointStore::recover_from_memory(Log& log) {
  FoundCopy found = find_memory_copy(group_, folder_.path());
  if (found.id.empty()) return;
  const std::int64_t newest = group_.max(group_.is_root() ? folder_.newest_step() : -1);
  if (found.contents && found.step > newest) {
    log.info(fmt::format("step {} is in the nodes' memory alone: it is copied to the run folder", found.step));
    step_ = found.step;
    best_ = false;
    writing_.emplace(group_, shared_target(), std::move(found.contents));
    finish_writing();
  } else if (group_.is_root() && found.newest_part < 0) {
    log.warning("nothing is left of the copies in the nodes' memory: the run goes on from a checkpoint");
  } else if (group_.is_root() && found.newest_part > newest) {
    log.warning(fmt::format("of step {}, only parts are left in the nodes' memory: the run goes on from a checkpoint",
                            found.newest_part));
  }
  forget_memory_copies(group_, folder_.path());
}

void CheckpointStore::recover_from_disk(Log& log) {
  const auto found = group_.is_root() ? read_local_note(folder_.path()) : std::nullopt;
  if (group_.is_root() && has_damaged_note(folder_.path())) {
    log.warning(
        fmt::format("{}/local.txt is damaged: if the run has left newer checkpoints on a local disk, it goes on "
                    "without them",
                    folder_.path()));
  }
  const LocalNote note{group_.broadcast_text(found ? found->host : ""),
                       group_.broadcast_text(found ? found->folder : "")};
  if (note.folder.empty()) return;
  const std::int64_t newest = group_.max(group_.is_root() ? folder_.newest_step() : -1);
  LeftOnDisk left;
  if (group_.node_rank() == 0) left.lock = lock_local_folder(note.folder);
  if (left.lock.is_open()) left.checkpoints = local_checkpoints_in(note.folder);
  std::erase_if(left.checkpoints, [&](const LocalCheckpoint& one) { return one.step < newest; });
  const bool has_newer = !left.checkpoints.empty();
  const auto owner = static_cast<int>(-group_.max(has_newer ? -group_.rank() : -group_.size()));
  if (owner < group_.size()) return recover_from_disk_of(owner, note, std::move(left), log);
  if (group_.max(left.lock.is_open() ? 1 : 0) == 0) {
    if (group_.is_root()) {
      log.warning(
          fmt::format("the run may have left newer checkpoints in {} of {}, which no rank sees, or another run "
                      "uses: it goes on without them; to use them, stop it now and resume it there",
                      note.folder, note.host));
    }
    return;
  }
  left.lock = OpenFile();
  if (group_.node_rank() == 0) remove_local_folder(note.folder);
  if (group_.is_root()) forget_local_checkpoints(folder_.path());
}

/// \param owner the rank whose node has newer checkpoints \param left of that rank: these
void CheckpointStore::recover_from_disk_of(int owner, const LocalNote& note, LeftOnDisk left, Log& log) {
  const bool is_owner = group_.rank() == owner;
  const std::int64_t step = group_.max(is_owner ? left.checkpoints.back().step : 0);
  const auto seen = is_owner ? read_local_note(folder_.path()) : std::nullopt;
  if (group_.max(seen && seen->folder == note.folder ? 1 : 0) == 0) {
    if (group_.is_root()) {
      log.warning(
          fmt::format("a checkpoint of step {} is in {} of {}, which does not see the run folder: the run goes "
                      "on without it",
                      step, note.folder, note.host));
    }
    return;
  }
  log.info(
      fmt::format("checkpoints up to step {} are in {} of {} alone: those that are whole are copied to the run folder",
                  step, note.folder, note.host));
  std::unique_ptr<CheckpointDrain> drain;
  if (is_owner) {
    drain = std::make_unique<CheckpointDrain>(folder_, [this](const std::string& text) { warn(text); });
    drain->take_over(left.checkpoints);
  }
  wait_for(drain.get());
  require_copied(drain ? drain->failure() : "");
  left.lock = OpenFile();
  if (is_owner) remove_local_folder(note.folder);
  if (group_.is_root()) forget_local_checkpoints(folder_.path());
}

void CheckpointStore::go_back_to_best(std::int64_t step) {
  finish();
  if (group_.is_root()) folder_.go_back_to_best(step);
  group_.barrier();
}

void CheckpointStore::relink_best(const StoredCheckpoint& resumed) {
  const CheckpointHeader& header = resumed.header;
  const bool is_best = header.has_best && header.best_by.step == header.step && settings_.keep_best;
  std::error_code ignored;
  if (is_best && group_.is_root() && !std::filesystem::equivalent(resumed.path, folder_.best(), ignored))
    link_file(resumed.path, folder_.best());
  group_.barrier();
}

std::optional<StoredCheckpoint> CheckpointStore::newest(Log& log) const {
  std::vector<std::string> damaged;
  auto found = newest_whole(group_, folder_.path(), log, damaged);
  if (found || damaged.empty()) return found;
  throw CheckpointError(fmt::format(
      "{}: all {} checkpoints are damaged ({}); start over with --overwrite, or restore a checkpoint from a backup",
      folder_.path(), damaged.size(), fmt::join(damaged, "; ")));
}

}  // namespace unisono::session
