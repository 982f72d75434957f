#include "import/set_writer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <utility>

#include "recipe/encoder.hpp"
#include "set/form.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/unseen.hpp"

namespace unisono::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = ".unfinished-";

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

/// Of a name that ends in the mark, a process and this host; 0: it does not.
pid_t process_in(const std::string& name) {
  const auto mark = name.rfind(kMark);
  if (mark == std::string::npos) return 0;
  pid_t process = 0;
  const char* const last = name.data() + name.size();
  const auto [end, error] = std::from_chars(name.data() + mark + kMark.size(), last, process);
  return error == std::errc() && std::string(end, last) == "@" + host_name() ? process : 0;
}

/// HDF5 locks what it writes to, which tells where processes of another container have the same numbers.
bool nobody_writes(const fs::path& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  struct stat status = {};
  const bool mine = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
  const bool unlocked = flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  close(file);
  return mine && unlocked;
}

// Global, because a signal handler can access nothing else.
std::atomic<const char*> removed_by_signal = nullptr;
static_assert(std::atomic<const char*>::is_always_lock_free, "a signal handler may not wait for a lock");

void remove_and_end(int signal) {
  if (const char* const path = removed_by_signal) unlink(path);
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // ends the process when this handler returns
}

constexpr std::uint64_t kChunkBytes = 256 << 10;

/// Not a checkpoint, nor anything else.
bool may_be_set(const std::string& path) {
  return hdf5::is_hdf5(path) && !hdf5::File(path, hdf5::File::Mode::read).exists("parameters");
}

void sync_to_disk(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool synced = file >= 0 && fsync(file) == 0;
  const int reason = errno;
  if (file >= 0) close(file);
  if (!synced) throw OutputError(fmt::format("{}: cannot be written: {}", path, std::strerror(reason)));
}

}  // namespace

std::string unfinished_path(const std::string& output) {
  return fmt::format("{}{}{}@{}", output, kMark, getpid(), host_name());
}

void remove_abandoned(const std::string& output) {
  const fs::path whole(output);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(whole.has_parent_path() ? whole.parent_path() : ".", ignored)) {
    const pid_t process = process_in(entry.path().filename().string());
    const bool is_dead = process > 0 && kill(process, 0) != 0 && errno == ESRCH;
    if (is_dead && nobody_writes(entry.path())) fs::remove(entry.path(), ignored);
  }
}

RemovedBySignal::RemovedBySignal(std::string path) : path_(std::move(path)) {
  before_ = removed_by_signal.exchange(path_.c_str());
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now = {};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) std::signal(signal, remove_and_end);
  }
}

RemovedBySignal::~RemovedBySignal() { removed_by_signal = before_; }

std::uint64_t chunk_rows_for(std::uint64_t row_bytes) {
  return std::max<std::uint64_t>(1, kChunkBytes / std::max<std::uint64_t>(1, row_bytes));
}

SetWriter::SetWriter(const ImportOutput& output) : output_(output), unfinished_(unfinished_path(output.path)) {
  std::error_code ignored;
  if (!output.overwrite && std::filesystem::exists(output.path, ignored)) {
    throw OutputError(fmt::format("{}: already exists; choose another --output, or add --overwrite", output.path));
  }
  if (std::filesystem::exists(output.path, ignored) && !may_be_set(output.path)) {
    throw OutputError(fmt::format(
        "{}: exists and is not an HDF5 data set, so it is not replaced; choose another --output", output.path));
  }
  std::filesystem::create_directories(std::filesystem::path(output_.path).parent_path(), ignored);  // else said below
  remove_abandoned(output_.path);
  removed_by_signal_.emplace(unfinished_);
  try {
    file_.emplace(unfinished_, hdf5::File::Mode::create);
  } catch (...) {
    std::filesystem::remove(unfinished_, ignored);  // on a full disk, the file is there, but empty
    throw;
  }
}

SetWriter::~SetWriter() {
  file_.reset();
  std::error_code ignored;
  std::filesystem::remove(unfinished_, ignored);  // where it was finished, there is none
}

template <typename T>
void SetWriter::create_features(const std::string& group, std::int64_t examples,
                                const std::vector<std::int64_t>& shape) {
  std::vector<std::uint64_t> extent{static_cast<std::uint64_t>(examples)};
  std::uint64_t row_bytes = sizeof(T);
  for (const std::int64_t n : shape) {
    extent.push_back(static_cast<std::uint64_t>(n));
    row_bytes *= static_cast<std::uint64_t>(n);
  }
  file_->create<T>(group + "/features", extent, output_.compression > 0 ? chunk_rows_for(row_bytes) : 0,
                   output_.compression);
}

template <typename T>
void SetWriter::write_features(const std::string& group, std::int64_t first, std::int64_t count, const T* values) {
  file_->write_rows(group + "/features", static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(count), values);
}

template void SetWriter::create_features<std::uint8_t>(const std::string&, std::int64_t,
                                                       const std::vector<std::int64_t>&);
template void SetWriter::create_features<float>(const std::string&, std::int64_t, const std::vector<std::int64_t>&);
template void SetWriter::write_features<std::uint8_t>(const std::string&, std::int64_t, std::int64_t,
                                                      const std::uint8_t*);
template void SetWriter::write_features<float>(const std::string&, std::int64_t, std::int64_t, const float*);

template <typename T>
void SetWriter::create_column(const std::string& dataset, std::uint64_t length) {
  file_->create<T>(dataset, {length}, output_.compression > 0 ? chunk_rows_for(sizeof(T)) : 0, output_.compression);
}

template void SetWriter::create_column<std::uint16_t>(const std::string&, std::uint64_t);
template void SetWriter::create_column<std::uint32_t>(const std::string&, std::uint64_t);
template void SetWriter::create_column<std::int32_t>(const std::string&, std::uint64_t);
template void SetWriter::create_column<std::uint64_t>(const std::string&, std::uint64_t);
template void SetWriter::create_column<std::int64_t>(const std::string&, std::uint64_t);
template void SetWriter::create_column<float>(const std::string&, std::uint64_t);
template void SetWriter::create_column<double>(const std::string&, std::uint64_t);

void SetWriter::scale_to_one(const std::string& group) {
  file_->write_attribute(group + "/features", "scale", 1.0 / 255);
  file_->write_attribute(group + "/features", "offset", 0.0);
}

void SetWriter::finish() {
  file_->flush();
  file_.reset();
  seal_set(unfinished_);
  sync_to_disk(unfinished_);
  std::error_code error;
  std::filesystem::rename(unfinished_, output_.path, error);
  if (error)
    throw OutputError(fmt::format("{}: the finished file cannot be renamed to it: {}", output_.path, error.message()));
}

void check_shares(const Shares& shares, const std::string& what, const std::string& test_file) {
  for (const double fraction : {shares.validation, shares.test}) {
    if (!(fraction >= 0 && fraction < 1))
      throw ConfigError(fmt::format("a fraction of {} of the {} is not possible; it must be at least 0 and less than 1",
                                    fraction, what));
  }
  if (shares.validation + shares.test >= 1) {
    throw ConfigError(
        fmt::format("--validation-fraction and --test-fraction leave no {} for training; use smaller fractions", what));
  }
  if (!test_file.empty() && shares.test > 0) {
    throw ConfigError("--test-file and --test-fraction cannot be combined");
  }
}

std::int64_t share_of(std::int64_t rows, double fraction) {
  const std::int64_t share = std::llround(fraction * static_cast<double>(rows));
  if (share == 0 && fraction > 0 && rows > 0) {
    throw ConfigError(
        fmt::format("a fraction of {} of {} is none of them; it must be at least {:.2g}, or 0 to hold out nothing",
                    fraction, count_of(rows, "example"), 1 / static_cast<double>(rows)));
  }
  return share;
}

RandomSplit::RandomSplit(std::int64_t rows, const Shares& shares)
    : order_(static_cast<std::uint64_t>(rows), RandomStream(shares.seed, Purpose::split)),
      test_(share_of(rows, shares.test)),
      validation_(share_of(rows, shares.validation)) {}

std::int64_t RandomSplit::size(Split split) const {
  const auto all = static_cast<std::int64_t>(order_.size());
  return split == Split::test ? test_ : split == Split::validation ? validation_ : all - test_ - validation_;
}

Split RandomSplit::of(std::int64_t row) const {
  if (test_ + validation_ == 0) return Split::train;
  const auto place = static_cast<std::int64_t>(order_(static_cast<std::uint64_t>(row)));
  if (place < test_) return Split::test;
  return place < test_ + validation_ ? Split::validation : Split::train;
}

std::vector<std::string> ClassCounts::warnings(const std::string& path, const std::vector<std::string>& names,
                                               const std::string& unit) const {
  const std::vector<bool> seen(counts_[0].begin(), counts_[0].end());
  std::vector<std::string> all;
  for (const Split split : {Split::validation, Split::test}) {
    const auto& counts = counts_[static_cast<std::size_t>(split)];
    const std::string text = unseen_classes_text(unseen_classes(seen, counts), names, seen, name_of(split), unit);
    if (!text.empty()) all.push_back(fmt::format("{}: {}", path, text));
  }
  return all;
}

std::vector<std::string> ClassCounts::untrained_labels(const std::string& path, const std::vector<std::string>& names,
                                                       const std::string& unit) const {
  std::vector<std::string> untrained;
  for (std::size_t k = 0; k < names.size(); ++k) {
    if (counts_[0][k] == 0) untrained.push_back(names[k]);
  }
  if (untrained.empty()) return {};
  return {fmt::format("{}: no training {} has the label{} {}", path, unit, untrained.size() == 1 ? "" : "s",
                      listed(untrained))};
}

}  // namespace unisono::data
