#include "seal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "unisono/base/errors.hpp"
#include "unisono/base/hash.hpp"

namespace unisono {
namespace {

constexpr std::string_view kMark = "unisono-xxh3-64:";
constexpr std::size_t kTrailerBytes = kMark.size() + sizeof(std::uint64_t);

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw OutputError(fmt::format("{}: cannot {}: {}; free some space or choose another folder with --output", path, what,
                                std::strerror(errno)));
}

std::string trailer_of(std::uint64_t hash) {
  std::string trailer(kMark);
  for (int byte = 0; byte < 8; ++byte) trailer += static_cast<char>(hash >> (8 * byte) & 0xFF);
  return trailer;
}

void sync_path(const std::string& path, int flags) {
  const int descriptor = ::open(path.c_str(), flags | O_CLOEXEC);
  if (descriptor < 0) fail(path, "open it to write it through to the disk");
  const int result = ::fsync(descriptor);
  const int reason = errno;
  ::close(descriptor);
  errno = reason;
  if (result != 0 && reason != EINVAL) fail(path, "write it through to the disk");
}

}  // namespace

void seal_file(const std::string& path) {
  std::ifstream input(path, std::ios::binary);
  const std::string trailer = trailer_of(hash_stream(input));
  std::ofstream output(path, std::ios::binary | std::ios::app);
  output << trailer;
  output.close();
  if (!input.is_open() || input.bad() || !output) fail(path, "write its checksum");
}

std::string broken_seal(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return fmt::format("cannot be read: {}", std::strerror(errno));
  const auto bytes = static_cast<std::uint64_t>(std::max<std::streamoff>(file.tellg(), 0));
  if (bytes < kTrailerBytes) return "is truncated";
  std::string trailer(kTrailerBytes, '\0');
  file.seekg(static_cast<std::streamoff>(bytes - kTrailerBytes));
  file.read(trailer.data(), static_cast<std::streamsize>(kTrailerBytes));
  if (!trailer.starts_with(kMark)) return "is truncated or no checkpoint: its checksum is missing";
  file.seekg(0);
  const std::string expected = trailer_of(hash_stream(file, bytes - kTrailerBytes));
  if (!file) return "cannot be read to its end";
  return trailer == expected ? "" : "is damaged: its checksum does not fit its bytes";
}

void sync_and_rename(const std::string& from, const std::string& to) {
  sync_path(from, O_RDWR);
  if (std::rename(from.c_str(), to.c_str()) != 0) fail(to, "rename the finished file to it");
  const auto folder = std::filesystem::path(to).parent_path();
  sync_path(folder.empty() ? "." : folder.string(), O_RDONLY | O_DIRECTORY);
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
      fail(second, "copy a checkpoint to it");
    }
  }
  sync_and_rename(aside, second);
}

}  // namespace unisono
