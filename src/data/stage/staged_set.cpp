#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "describe/figures.hpp"
#include "set/agreement.hpp"
#include "stage/stage_folder.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/file_bytes.hpp"
#include "unisono/base/file_pattern.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/staging.hpp"

// Staging copies a set's file in pages, in the order in which they are needed, whatever they hold: so all kinds of sets
// and readers profit, and no byte is read from the shared file twice.
//   page that a rank needs     kept by this node: from the copy, or else from the file and into the copy
//                              kept by another node: from that node, which does the same
//   which node keeps a page    with data.partition = "global" node ⌊page / 16⌋ mod nodes; otherwise every node keeps
//                              what its ranks read
namespace unisono::data {
namespace {

constexpr std::uint64_t kPagesOfRun = 16;   // consecutive pages that the same node keeps
constexpr std::uint64_t kMostAtOnce = 16;   // pages that are read from the file at once
constexpr std::size_t kPagesInMemory = 32;  // of other nodes, for short reads near each other
constexpr std::string_view kFormat = "unisono-stage-1";

/// Bytes [first, last) of a file.
struct ByteRange {
  std::uint64_t first, last;
};

/// A page that another node keeps, in memory.
struct PageInMemory {
  std::uint64_t page;
  std::vector<std::byte> bytes;
};

/// The files of a set, one behind the other, whatever a Redirection says of them.
class OwnFiles {
 public:
  /// \throws DataError where one cannot be read
  explicit OwnFiles(const std::vector<std::string>& paths);

  std::uint64_t begin(std::size_t file) const { return begins_[file]; }
  std::uint64_t bytes() const { return begins_.back(); }
  void read(std::uint64_t at, std::span<std::byte> bytes) const;

 private:
  std::deque<RawFile> files_;
  std::vector<std::uint64_t> begins_ = {0};  ///< [files + 1]
};

OwnFiles::OwnFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const OpenFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.is_open())
      throw DataError(fmt::format("{}: cannot be read: {}; check its permissions", path, std::strerror(errno)));
    files_.emplace_back(path, file.get());
    begins_.push_back(begins_.back() + files_.back().size());
  }
}

void OwnFiles::read(std::uint64_t at, std::span<std::byte> bytes) const {
  auto file = static_cast<std::size_t>(std::ranges::upper_bound(begins_, at) - begins_.begin() - 1);
  for (; !bytes.empty(); ++file) {
    const std::size_t count = std::min<std::uint64_t>(bytes.size(), begins_[file + 1] - at);
    files_[file].read(at - begins_[file], bytes.first(count));
    bytes = bytes.subspan(count);
    at += count;
  }
}

class StagedBytesOfSet final : public FileBytes {
 public:
  /// \param files the set's files \param warn may be called by any thread
  StagedBytesOfSet(const StagedSource& source, OwnFiles files, StagedCopy copy,
                   std::function<void(const std::string&)> warn);

  void read(std::uint64_t at, std::span<std::byte> bytes) const override;
  void read_here(std::uint64_t at, std::span<std::byte> bytes) const;
  void divide(int own_node, int nodes, StageNeighbours* neighbours);
  StagedBytes read_bytes() const { return {from_file_, from_copy_, from_neighbours_}; }
  const StagedSource& source() const { return source_; }
  const OwnFiles& files() const { return files_; }
  std::string text() const;

 private:
  int node_of(std::uint64_t page) const {
    return static_cast<int>(page / kPagesOfRun % static_cast<std::uint64_t>(nodes_));
  }
  void read_there(int node, std::uint64_t at, std::span<std::byte> bytes) const;
  void stage_pages(std::uint64_t first, std::uint64_t last, std::uint64_t at, std::span<std::byte> bytes) const;
  void read_file(std::uint64_t at, std::span<std::byte> bytes) const;
  void copy_from_file(std::uint64_t first, std::span<std::byte> pages, const ByteRange& needed) const;
  void keep_pages(std::uint64_t first, std::span<const std::byte> bytes) const;
  bool is_full() const;
  void warn_once(std::atomic<bool>& warned, const std::string& text) const;

  StagedSource source_;
  mutable StagedCopy copy_;
  std::function<void(const std::string&)> warn_;
  OwnFiles files_;
  int own_node_ = 0, nodes_ = 1;
  StageNeighbours* neighbours_ = nullptr;

  mutable std::vector<std::atomic<bool>> whole_;  ///< [pages] found whole by this process
  mutable std::mutex copying_;                    ///< held by the thread that makes the copy
  mutable std::atomic<bool> full_ = false, warned_of_damage_ = false, warned_of_disk_ = false;
  mutable std::mutex in_memory_mutex_;
  mutable std::deque<PageInMemory> in_memory_;
  mutable std::atomic<std::int64_t> from_file_ = 0, from_copy_ = 0, from_neighbours_ = 0;
};

StagedBytesOfSet::StagedBytesOfSet(const StagedSource& source, OwnFiles files, StagedCopy copy,
                                   std::function<void(const std::string&)> warn)
    : source_(source),
      copy_(std::move(copy)),
      warn_(std::move(warn)),
      files_(std::move(files)),
      whole_(copy_.pages->pages()) {}

void StagedBytesOfSet::divide(int own_node, int nodes, StageNeighbours* neighbours) {
  own_node_ = own_node;
  nodes_ = neighbours == nullptr ? 1 : nodes;
  neighbours_ = neighbours;
}

std::string StagedBytesOfSet::text() const {
  const std::uint64_t there = copy_.pages->count() * kPageBytes;
  std::string text =
      fmt::format("{} of {} of it are there", size_text(static_cast<double>(std::min(there, source_.bytes))),
                  size_text(static_cast<double>(source_.bytes)));
  if (copy_.most_bytes < source_.expected) {
    text += fmt::format("; there is room for {} (data.stage_bytes), so that the rest is read from the file",
                        size_text(static_cast<double>(copy_.most_bytes)));
  }
  if (!copy_.evicted.empty()) text += "; removed to make room: " + copy_.evicted;
  return text;
}

void StagedBytesOfSet::warn_once(std::atomic<bool>& warned, const std::string& text) const {
  if (!warned.exchange(true) && warn_) warn_(text);
}

void StagedBytesOfSet::read(std::uint64_t at, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const std::uint64_t page = at / kPageBytes, end_of_run = (page / kPagesOfRun + 1) * kPagesOfRun * kPageBytes;
    const std::size_t count = nodes_ == 1 ? bytes.size() : std::min<std::uint64_t>(bytes.size(), end_of_run - at);
    const int node = node_of(page);
    node == own_node_ || nodes_ == 1 ? read_here(at, bytes.first(count)) : read_there(node, at, bytes.first(count));
    bytes = bytes.subspan(count);
    at += count;
  }
}

/// Long reads as they are; of short ones the whole page, because others near it follow.
void StagedBytesOfSet::read_there(int node, std::uint64_t at, std::span<std::byte> bytes) const {
  if (bytes.size() >= kPageBytes / 4) {
    neighbours_->read(node, at, bytes);
    from_neighbours_ += std::ssize(bytes);
    return;
  }
  const std::lock_guard lock(in_memory_mutex_);
  while (!bytes.empty()) {
    const std::uint64_t page = at / kPageBytes, begin = page * kPageBytes;
    auto found = std::ranges::find(in_memory_, page, &PageInMemory::page);
    if (found == in_memory_.end()) {
      std::vector<std::byte> whole(copy_.pages->page_bytes(page));
      neighbours_->read(node, begin, whole);
      from_neighbours_ += std::ssize(whole);
      if (in_memory_.size() == kPagesInMemory) in_memory_.pop_front();
      in_memory_.push_back({page, std::move(whole)});
      found = std::prev(in_memory_.end());
    }
    const std::size_t count = std::min<std::uint64_t>(bytes.size(), begin + found->bytes.size() - at);
    std::memcpy(bytes.data(), found->bytes.data() + (at - begin), count);
    bytes = bytes.subspan(count);
    at += count;
  }
}

void StagedBytesOfSet::read_here(std::uint64_t at, std::span<std::byte> bytes) const {
  if (at > source_.bytes || bytes.size() > source_.bytes - at) {
    throw DataError(fmt::format("{}: cannot be read to its end: it has {} bytes", source_.path, source_.bytes));
  }
  while (!bytes.empty()) {
    const std::uint64_t page = at / kPageBytes, end = (at + bytes.size() - 1) / kPageBytes + 1;
    const bool is_whole = whole_[page];
    std::uint64_t next = page + 1;
    while (next < end && whole_[next] == is_whole && (is_whole || next - page < kMostAtOnce)) ++next;
    const std::size_t count = std::min<std::uint64_t>(bytes.size(), next * kPageBytes - at);
    const auto part = bytes.first(count);
    if (!is_whole) {
      stage_pages(page, next, at, part);
    } else if (copy_.pages->read_bytes(at, part)) {
      from_copy_ += std::ssize(part);
    } else {
      warn_once(warned_of_disk_,
                fmt::format("{}: the copy on the local disk cannot be read; the file is read instead", source_.path));
      read_file(at, part);
    }
    bytes = bytes.subspan(count);
    at += count;
  }
}

void StagedBytesOfSet::read_file(std::uint64_t at, std::span<std::byte> bytes) const {
  files_.read(at, bytes);
  from_file_ += std::ssize(bytes);
}

/// Whether no more page has room.
bool StagedBytesOfSet::is_full() const {
  if (!full_ && copy_.pages->bytes_on_disk() + kPageBytes > copy_.most_bytes) full_ = true;
  return full_;
}

/// Reads bytes of pages [first, last), of which this process does not know whether they are in the copy, and copies
/// those that are missing.
void StagedBytesOfSet::stage_pages(std::uint64_t first, std::uint64_t last, std::uint64_t at,
                                   std::span<std::byte> bytes) const {
  const std::lock_guard lock(copying_);
  const PageFile::Claim claim(*copy_.pages, first, last);  // another rank may be copying them
  const std::uint64_t begin = first * kPageBytes;
  std::vector<std::byte> all(std::min(last * kPageBytes, source_.bytes) - begin);
  const auto part_of_pages = [&](std::uint64_t from, std::uint64_t to) {
    return std::span(all).subspan((from - first) * kPageBytes,
                                  std::min(to * kPageBytes, begin + all.size()) - from * kPageBytes);
  };
  for (std::uint64_t page = first; page < last;) {
    const auto found = copy_.pages->read_page(page, part_of_pages(page, page + 1));
    if (found == PageFile::Found::whole) {
      whole_[page] = true;
      from_copy_ += std::ssize(part_of_pages(page, page + 1));
      ++page;
      continue;
    }
    std::uint64_t next = page;
    for (auto state = found; next < last; ++next) {
      if (next > page) state = copy_.pages->read_page(next, part_of_pages(next, next + 1));
      if (state == PageFile::Found::whole) break;
      if (state == PageFile::Found::damaged) {
        warn_once(warned_of_damage_,
                  fmt::format("{}: a part of the copy on the local disk is damaged; it is copied again", source_.path));
      }
    }
    copy_from_file(page, part_of_pages(page, next), {at, at + bytes.size()});
    page = next;
  }
  std::memcpy(bytes.data(), all.data() + (at - begin), bytes.size());
}

/// Reads missing pages and keeps them; where there is no room for them, reads only what is needed.
void StagedBytesOfSet::copy_from_file(std::uint64_t first, std::span<std::byte> pages, const ByteRange& needed) const {
  const std::uint64_t begin = first * kPageBytes, end = begin + pages.size();
  if (!is_full()) {
    read_file(begin, pages);
    return keep_pages(first, pages);
  }
  const std::uint64_t from = std::max(begin, needed.first), to = std::min(end, needed.last);
  if (from < to) read_file(from, pages.subspan(from - begin, to - from));
}

/// Writes pages into the copy, as long as there is room.
void StagedBytesOfSet::keep_pages(std::uint64_t first, std::span<const std::byte> bytes) const {
  for (std::uint64_t page = first; !bytes.empty() && !is_full(); ++page) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), kPageBytes);
    if (const int error = copy_.pages->write_page(page, bytes.first(count))) {
      full_ = true;
      warn_once(warned_of_disk_,
                fmt::format("{}: its copy on the local disk cannot be written: {}; what is missing there is read from "
                            "the file",
                            source_.path, std::strerror(error)));
      return;
    }
    whole_[page] = true;
    bytes = bytes.subspan(count);
  }
}

/// One of the files of a set.
class StagedBytesOfFile final : public FileBytes {
 public:
  StagedBytesOfFile(std::shared_ptr<const StagedBytesOfSet> set, std::uint64_t begin)
      : set_(std::move(set)), begin_(begin) {}

  void read(std::uint64_t at, std::span<std::byte> bytes) const override { set_->read(begin_ + at, bytes); }

 private:
  std::shared_ptr<const StagedBytesOfSet> set_;
  std::uint64_t begin_;
};

class StagedFiles final : public StagedSet {
 public:
  /// \param paths of the set's files, as whoever reads them names them
  StagedFiles(const std::vector<std::string>& paths, std::shared_ptr<StagedBytesOfSet> bytes)
      : bytes_(std::move(bytes)) {
    for (std::size_t i = 0; i < paths.size(); ++i) {
      redirections_.emplace_back(paths[i], std::make_shared<StagedBytesOfFile>(bytes_, bytes_->files().begin(i)));
    }
  }

  std::uint64_t identity() const override { return bytes_->source().identity; }
  StagedBytes read_bytes() const override { return bytes_->read_bytes(); }
  std::string text() const override { return bytes_->text(); }
  void read_here(std::uint64_t at, std::span<std::byte> bytes) override { bytes_->read_here(at, bytes); }
  void divide(int own_node, int nodes, StageNeighbours* neighbours) override {
    bytes_->divide(own_node, nodes, neighbours);
  }

 private:
  std::shared_ptr<StagedBytesOfSet> bytes_;
  std::deque<Redirection> redirections_;
};

/// A set has another identity when the bytes of a file have changed. A file's number on the file system is left out,
/// because some have another one after each mount. \param paths of its files \return nothing: one is no file with bytes
std::optional<StagedSource> source_of(const std::string& path, const std::vector<std::string>& paths) {
  std::string versions(kFormat);
  StagedSource source;
  std::error_code error;
  for (const std::string& file : paths) {
    struct stat state {};
    if (::stat(file.c_str(), &state) != 0 || !S_ISREG(state.st_mode) || state.st_size == 0) return std::nullopt;
    const std::string absolute = std::filesystem::canonical(file, error).string();
    if (error) return std::nullopt;
    const auto bytes = static_cast<std::uint64_t>(state.st_size);
    versions += fmt::format(" {} {} {}.{} {}.{}", absolute, bytes, state.st_mtim.tv_sec, state.st_mtim.tv_nsec,
                            state.st_ctim.tv_sec, state.st_ctim.tv_nsec);
    source.bytes += bytes;
    source.path = absolute;
  }
  if (source.bytes == 0) return std::nullopt;
  if (paths.size() > 1) source.path = std::filesystem::absolute(path, error).lexically_normal().string();
  source.identity = hash_bytes(versions);
  return source;
}

}  // namespace

std::unique_ptr<StagedSet> stage_set(const DataSettings& settings, const NodeShare& share, const StageTerms& terms) {
  if (settings.stage.empty()) return nullptr;
  std::unique_ptr<StagedSet> staged;
  Agreement agreement(share);
  agreement.all_do([&] {
    const std::vector<std::string> paths = files_of(settings.path);
    auto source = source_of(settings.path, paths);
    if (!source) return;  // opening it will report why
    source->expected = source->bytes / static_cast<std::uint64_t>(terms.parts);
    OwnFiles files(paths);
    StagedCopy copy = open_staged_copy(settings.stage, *source, static_cast<std::uint64_t>(settings.stage_bytes));
    staged = std::make_unique<StagedFiles>(
        paths, std::make_shared<StagedBytesOfSet>(*source, std::move(files), std::move(copy), terms.warn));
  });
  return staged;
}

void StagedBytes::describe(CounterVisitor& visitor) {
  const CounterGroup group(visitor, "staging");
  const auto count = [&](std::string_view name, std::int64_t& bytes) {
    visitor.count({.name = name, .unit = "bytes", .shown = Shown::everywhere}, bytes);
  };
  count("file_bytes", file);
  count("copy_bytes", copy);
  count("neighbour_bytes", neighbours);
}

std::string StagedBytes::text(const CounterTerms&) const {
  const auto megabytes = [](std::int64_t bytes) { return static_cast<double>(bytes) * 1e-6; };
  std::string text =
      fmt::format("  staging     {:.1f} MB read from the set's file, {:.1f} MB from copies on local disks",
                  megabytes(file), megabytes(copy));
  if (neighbours > 0) text += fmt::format("; {:.1f} MB came from other nodes", megabytes(neighbours));
  return text + "\n";
}

}  // namespace unisono::data
