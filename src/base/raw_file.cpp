#include "unisono/base/raw_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono {

std::string file_version(const std::string& path) {
  struct stat state {};
  if (::stat(path.c_str(), &state) != 0 || !S_ISREG(state.st_mode) || ::access(path.c_str(), R_OK) != 0) return "";
  return fmt::format("{} {} {} {} {}", state.st_dev, state.st_ino, state.st_size, state.st_mtim.tv_sec,
                     state.st_mtim.tv_nsec);
}

std::string advice_on(int error) {
  switch (error) {
    case ENOSPC:
      return "free some space";
    case EDQUOT:
      return "free some space, or ask for a larger quota";
    case EFBIG:
      return "raise the limit of the size of files (ulimit -f)";
    case EACCES:
    case EPERM:
    case EROFS:
      return "make its folder writable";
    case EMFILE:
    case ENFILE:
      return "raise the limit of open files (ulimit -n)";
    default:
      return "see to that";
  }
}

std::string advice_on(const std::string& reason) {
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EACCES, EPERM, EROFS, EMFILE, ENFILE}) {
    if (reason.find(std::strerror(error)) != std::string::npos) return advice_on(error);
  }
  return advice_on(0);
}

RawFile::RawFile(std::string path, Mode mode)
    : path_(std::move(path)),
      mode_(mode),
      descriptor_(::open(path_.c_str(), (mode == Mode::read ? O_RDONLY | O_NONBLOCK : O_RDWR) | O_CLOEXEC)) {
  if (descriptor_ < 0) fail("be opened");
  if (mode == Mode::read) elsewhere_ = redirection_of(path_);
  struct stat state {};  // opening a FIFO would wait for whoever writes it, and then it has no size
  if (mode == Mode::update || ::fstat(descriptor_, &state) != 0 || S_ISREG(state.st_mode)) return;
  ::close(descriptor_);
  throw DataError(fmt::format("{}: this is {}, but must be a file of the disk", path_,
                              S_ISDIR(state.st_mode)    ? "a folder"
                              : S_ISFIFO(state.st_mode) ? "a pipe"
                                                        : "a device"));
}

RawFile::RawFile(std::string path, int descriptor)
    : path_(std::move(path)), mode_(Mode::read), descriptor_(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)) {
  if (descriptor_ < 0) fail("be opened");
}

RawFile::~RawFile() { ::close(descriptor_); }

void RawFile::fail(const std::string& what) const {
  const std::string text = fmt::format("{}: cannot {}: {}", path_, what, std::strerror(errno));
  if (mode_ == Mode::read) throw DataError(text);
  throw OutputError(text);
}

std::uint64_t RawFile::size() const {
  struct stat state {};
  if (::fstat(descriptor_, &state) != 0) fail("be examined");
  return static_cast<std::uint64_t>(state.st_size);
}

void RawFile::read(std::uint64_t at, std::span<std::byte> bytes) const {
  if (elsewhere_) return elsewhere_->read(at, bytes);
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ENODATA;
    if (count <= 0) fail("be read to its end");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
}

void RawFile::write(std::uint64_t at, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("be written");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
}

void RawFile::sync() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail("be flushed to the disk");
}

namespace {

constexpr std::uint64_t kSegmentBytes = 64 << 20;
constexpr std::string_view kSealed = "unisono-xxh3-64M:", kOpen = "unisono-unsealed:";
static_assert(kTrailerBytes == kSealed.size() + sizeof(std::uint64_t));

[[noreturn]] void fail_to(const std::string& path, std::string_view what) {
  const int error = errno;
  throw OutputError(fmt::format("{}: cannot {}: {}; {}", path, what, std::strerror(error),
                                advice_about(path, advice_on(error) + ", or choose another folder with --output")));
}

std::string trailer_of(std::string_view mark, std::uint64_t number) {
  std::string trailer(mark);
  for (int byte = 0; byte < 8; ++byte) trailer += static_cast<char>(number >> (8 * byte) & 0xFF);
  return trailer;
}

std::string seal_of(std::span<const std::uint64_t> segments) {
  return trailer_of(kSealed, hash_bytes(std::as_bytes(segments)));
}

/// Empty where a file is shorter than a trailer. \throws DataError
std::string trailer_in(const RawFile& file) {
  const std::uint64_t size = file.size();
  if (size < kTrailerBytes) return "";
  std::string trailer(kTrailerBytes, '\0');
  file.read(size - kTrailerBytes, std::as_writable_bytes(std::span(trailer)));
  return trailer;
}

void sync_folder(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_to(path, "open it to flush it to the disk");
  const int result = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  errno = reason;
  if (result != 0 && reason != EINVAL) fail_to(path, "flush it to the disk");
}

}  // namespace

void append_open_trailer(const std::string& path, std::uint64_t number) {
  const std::string trailer = trailer_of(kOpen, number);
  RawFile file(path, RawFile::Mode::update);
  file.write(file.size(), std::as_bytes(std::span(trailer)));
}

std::uint64_t count_segments(std::uint64_t bytes) { return (bytes + kSegmentBytes - 1) / kSegmentBytes; }

namespace {

/// Reads the chunks of one segment. \param see is called with the place of each chunk and its bytes; if it returns
/// false, no more are read \return the segment's hash
template <typename See>
std::uint64_t read_segment(const RawFile& file, std::uint64_t bytes, std::uint64_t segment, See see) {
  std::vector<std::byte> chunk(kHashedChunkBytes);
  std::uint64_t hash = 0;
  const std::uint64_t end = std::min((segment + 1) * kSegmentBytes, bytes);
  for (std::uint64_t at = segment * kSegmentBytes; at < end; at += chunk.size()) {
    chunk.resize(std::min(kHashedChunkBytes, end - at));
    file.read(at, chunk);
    hash = hash_bytes(chunk, hash);
    if (!see(at, chunk)) break;
  }
  return hash;
}

}  // namespace

std::uint64_t hash_segment(const std::string& path, std::uint64_t bytes, std::uint64_t segment) {
  const RawFile file(path, RawFile::Mode::read);
  return read_segment(file, bytes, segment, [](std::uint64_t, const std::vector<std::byte>&) { return true; });
}

std::vector<std::uint64_t> hash_segments(const std::string& path, int reader, int readers) {
  std::vector<std::uint64_t> hashes;
  const std::uint64_t bytes = std::max(RawFile(path, RawFile::Mode::read).size(), kTrailerBytes) - kTrailerBytes;
  const std::uint64_t segments = count_segments(bytes);
  for (auto segment = static_cast<std::uint64_t>(reader); segment < segments;
       segment += static_cast<std::uint64_t>(readers))
    hashes.push_back(hash_segment(path, bytes, segment));
  return hashes;
}

void seal_file(const std::string& path, std::span<const std::uint64_t> segments) {
  const std::string seal = seal_of(segments);
  RawFile file(path, RawFile::Mode::update);
  file.write(file.size() - kTrailerBytes, std::as_bytes(std::span(seal)));
}

std::string missing_seal(const std::string& path) {
  try {
    const std::string trailer = trailer_in(RawFile(path, RawFile::Mode::read));
    if (trailer.empty()) return path + " is truncated";
    return trailer.starts_with(kSealed) ? "" : path + " is truncated or not a checkpoint: its checksum is missing";
  } catch (const DataError& error) {
    return error.what();
  }
}

bool fits_seal(const std::string& path, std::span<const std::uint64_t> segments) {
  return trailer_in(RawFile(path, RawFile::Mode::read)) == seal_of(segments);
}

bool copy_sealed(const std::string& from, const std::string& to, const std::function<bool()>& goes_on) {
  const RawFile file(from, RawFile::Mode::read);
  const std::string trailer = trailer_in(file);
  if (!trailer.starts_with(kSealed))
    throw DataError(from + " is truncated or not a checkpoint: its checksum is missing");
  if (!std::ofstream(to, std::ios::binary | std::ios::trunc)) fail_to(to, "create it");
  RawFile copy(to, RawFile::Mode::update);
  const std::uint64_t bytes = file.size() - kTrailerBytes;
  std::vector<std::uint64_t> hashes;
  bool whole = true;
  for (std::uint64_t segment = 0; whole && segment < count_segments(bytes); ++segment) {
    hashes.push_back(read_segment(file, bytes, segment, [&](std::uint64_t at, const std::vector<std::byte>& chunk) {
      copy.write(at, chunk);
      return whole = goes_on();
    }));
  }
  if (!whole) return false;
  if (trailer != seal_of(hashes)) throw DataError(from + " is damaged: its checksum does not match its contents");
  copy.write(bytes, std::as_bytes(std::span(trailer)));
  return true;
}

std::string seal_fingerprint(const std::string& path) {
  try {
    const RawFile file(path, RawFile::Mode::read);
    return fmt::format("{} {}", file.size(), trailer_in(file));
  } catch (const DataError&) {
    return "";
  }
}

void sync_and_rename(const std::string& from, const std::string& to) {
  RawFile(from, RawFile::Mode::update).sync();
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_to(to, "rename the finished file to it");
  const auto folder = std::filesystem::path(to).parent_path();
  sync_folder(folder.empty() ? "." : folder.string());
}

void link_file(const std::string& first, const std::string& second) {
  const std::string aside = second + ".tmp";
  std::error_code ignored;
  std::filesystem::remove(aside, ignored);
  if (::link(first.c_str(), aside.c_str()) != 0) {
    std::error_code error;
    std::filesystem::copy_file(first, aside, error);
    if (error) {
      errno = error.value();
      fail_to(second, "copy a checkpoint to it");
    }
  }
  sync_and_rename(aside, second);
}

}  // namespace unisono
