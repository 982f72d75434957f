#include "stage/page_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

constexpr const char *kPages = "/pages", *kIndex = "/index";  ///< the names of the two files

OpenFile open_for_pages(const std::string& path, std::uint64_t bytes) {
  OpenFile file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat state {};
  if (!file.is_open() || ::fstat(file.get(), &state) != 0)
    throw std::system_error(errno, std::generic_category(), path);
  const bool has_size = static_cast<std::uint64_t>(state.st_size) == bytes;
  if (!has_size && ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    throw std::system_error(errno, std::generic_category(), path);
  return file;
}

/// Reads as many bytes as there are. \return how many, or −1
std::int64_t read_up_to(int file, std::uint64_t at, std::span<std::byte> to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const ssize_t count = ::pread(file, to.data() + done, to.size() - done, static_cast<off_t>(at + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return static_cast<std::int64_t>(done);
}

/// \return 0, or the error number
int write_all(int file, std::uint64_t at, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t count = ::pwrite(file, from.data(), from.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count == 0 ? ENOSPC : errno;
    from = from.subspan(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
  return 0;
}

/// Locks or unlocks bytes of the index, one for each page. The lock belongs to the open file, not to the process.
void lock_pages(int index, short kind, std::uint64_t first, std::uint64_t last) {
  struct flock range {};
  range.l_type = kind;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(first);
  range.l_len = static_cast<off_t>(last - first);
  while (::fcntl(index, F_OFD_SETLKW, &range) != 0 && errno == EINTR) {
  }
}

}  // namespace

std::uint64_t bytes_on_disk(const std::string& folder) {
  constexpr std::uint64_t kBlock = 512;
  std::uint64_t bytes = 0;
  for (const char* name : {kPages, kIndex}) {
    struct stat state {};
    if (::stat((folder + name).c_str(), &state) == 0) bytes += static_cast<std::uint64_t>(state.st_blocks) * kBlock;
  }
  return bytes;
}

PageFile::PageFile(const std::string& folder, std::uint64_t bytes, std::uint64_t key)
    : folder_(folder),
      bytes_(bytes),
      key_(key),
      pages_(open_for_pages(folder + kPages, bytes)),
      index_(open_for_pages(folder + kIndex, pages() * sizeof(std::uint64_t))) {}

std::uint64_t PageFile::page_bytes(std::uint64_t page) const {
  return std::min(kPageBytes, bytes_ - page * kPageBytes);
}

std::uint64_t PageFile::count() const {
  std::vector<std::uint64_t> hashes(pages());
  read_up_to(index_.get(), 0, std::as_writable_bytes(std::span(hashes)));
  return hashes.size() - static_cast<std::uint64_t>(std::ranges::count(hashes, 0U));
}

PageFile::Claim::Claim(const PageFile& file, std::uint64_t first, std::uint64_t last)
    : file_(file), first_(first), last_(last) {
  lock_pages(file_.index_.get(), F_WRLCK, first_, last_);
}

PageFile::Claim::~Claim() { lock_pages(file_.index_.get(), F_UNLCK, first_, last_); }

/// Never 0, which says that a page is missing. A page at another place, or of another file, does not fit.
std::uint64_t PageFile::hash(std::uint64_t page, std::span<const std::byte> bytes) const {
  return hash_bytes(bytes, key_ + page) | 1;
}

PageFile::Found PageFile::read_page(std::uint64_t page, std::span<std::byte> to) const {
  std::uint64_t stored = 0;
  read_up_to(index_.get(), page * sizeof stored, std::as_writable_bytes(std::span(&stored, 1)));
  if (stored == 0) return Found::missing;
  return read_bytes(page * kPageBytes, to) && hash(page, to) == stored ? Found::whole : Found::damaged;
}

bool PageFile::read_bytes(std::uint64_t at, std::span<std::byte> to) const {
  return read_up_to(pages_.get(), at, to) == static_cast<std::int64_t>(to.size());
}

int PageFile::write_page(std::uint64_t page, std::span<const std::byte> from) {
  const std::uint64_t none = 0, stored = hash(page, from);
  const auto write_hash = [&](const std::uint64_t& value) {
    return write_all(index_.get(), page * sizeof value, std::as_bytes(std::span(&value, 1)));
  };
  if (const int error = write_hash(none)) return error;  // a damaged page has a hash
  if (const int error = write_all(pages_.get(), page * kPageBytes, from)) return error;
  return write_hash(stored);
}

}  // namespace unisono::data
