#include <fmt/format.h>
#include <unzip.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "import/arrays.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kMostEntries = 100000;
constexpr std::uint64_t kMostInflated = 1100;  // bytes for each byte that deflate made of them
constexpr unsigned kEncrypted = 1, kStored = 0;

[[noreturn]] void fail_archive(const std::string& name, std::string_view what) {
  throw DataError(fmt::format("{}: {}; save it again with numpy.savez", name, what));
}

using Archive = std::unique_ptr<void, int (*)(unzFile)>;

Archive open_archive(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw DataError(path + ": there is no such file; check the path");
  if (!std::filesystem::is_regular_file(path, error)) throw DataError(path + ": this is not a regular file");
  Archive archive(unzOpen64(path.c_str()), unzClose);
  if (archive == nullptr) fail_archive(path, "is no zip file, as .npz files are, or is truncated");
  return archive;
}

struct Described {
  std::string name;
  unz_file_info64 info{};
};

Described describe_entry(unzFile archive, const std::string& path) {
  Described entry;
  if (unzGetCurrentFileInfo64(archive, &entry.info, nullptr, 0, nullptr, 0, nullptr, 0) != UNZ_OK)
    fail_archive(path, "its list of entries is damaged");
  entry.name.resize(entry.info.size_filename);
  const auto room = static_cast<uLong>(entry.name.size());
  if (unzGetCurrentFileInfo64(archive, &entry.info, entry.name.data(), room, nullptr, 0, nullptr, 0) != UNZ_OK)
    fail_archive(path, "its list of entries is damaged");
  return entry;
}

/// Steps from entry to entry.
template <typename Visit>
void for_entries(unzFile archive, const std::string& path, const Visit& visit) {
  int code = unzGoToFirstFile(archive);
  for (std::size_t count = 0; code == UNZ_OK; code = unzGoToNextFile(archive)) {
    if (++count > kMostEntries) fail_archive(path, "has too many entries");
    visit(describe_entry(archive, path));
  }
  if (code != UNZ_END_OF_LIST_OF_FILE) fail_archive(path, "its list of entries is damaged");
}

/// \throws DataError for an entry that cannot be unpacked here, or whose sizes are impossible
void check_entry(const unz_file_info64& info, const std::string& name) {
  if ((info.flag & kEncrypted) != 0) fail_archive(name, "is encrypted");
  const bool deflated = info.compression_method == Z_DEFLATED;
  if (!deflated && info.compression_method != kStored) {
    fail_archive(name, fmt::format("is compressed with method {}, but only deflate is supported",
                                   static_cast<unsigned long>(info.compression_method)));
  }
  const bool fits = deflated ? info.uncompressed_size / kMostInflated <= info.compressed_size
                             : info.uncompressed_size == info.compressed_size;
  if (!fits) fail_archive(name, "announces more bytes than it can hold");
}

class EntryBytes final : public ByteSource {
 public:
  EntryBytes(const std::string& path, const ArchiveEntry& entry)
      : name_(path + "/" + entry.name), archive_(open_archive(path)) {
    unz64_file_pos place{.pos_in_zip_directory = entry.place, .num_of_file = 0};
    if (unzGoToFilePos64(archive_.get(), &place) != UNZ_OK) fail_archive(path, "its list of entries is damaged");
    const Described found = describe_entry(archive_.get(), path);
    if (found.name != entry.name) fail_archive(name_, "has moved; the file was changed while it was read");
    check_entry(found.info, name_);
    if (unzOpenCurrentFile(archive_.get()) != UNZ_OK) fail_archive(name_, "cannot be read; the file is damaged");
  }

  std::size_t read(std::span<char> buffer) override {
    constexpr std::size_t kAtATime = 1 << 20;
    std::size_t filled = 0;
    while (filled < buffer.size() && !ended_) {
      const auto count = static_cast<unsigned>(std::min(kAtATime, buffer.size() - filled));
      const int read = unzReadCurrentFile(archive_.get(), buffer.data() + filled, count);
      if (read < 0) fail_archive(name_, "cannot be read to its end; the file is damaged");
      filled += static_cast<std::size_t>(read);
      if (read == 0) end();
    }
    return filled;
  }
  const std::string& name() const override { return name_; }

 private:
  void end() {
    ended_ = true;
    if (unzCloseCurrentFile(archive_.get()) != UNZ_OK) fail_archive(name_, "is damaged: its checksum does not match");
  }

  std::string name_;
  Archive archive_;
  bool ended_ = false;
};

}  // namespace

std::vector<ArchiveEntry> list_archive(const std::string& path) {
  const Archive archive = open_archive(path);
  std::vector<ArchiveEntry> entries;
  std::set<std::string> seen;
  for_entries(archive.get(), path, [&](const Described& described) {
    if (!seen.insert(described.name).second) {
      fail_archive(path, fmt::format("has two entries named '{}'", described.name));
    }
    unz64_file_pos place{};
    if (unzGetFilePos64(archive.get(), &place) != UNZ_OK) fail_archive(path, "its list of entries is damaged");
    entries.push_back({described.name, described.info.uncompressed_size, place.pos_in_zip_directory});
  });
  return entries;
}

std::unique_ptr<ByteSource> open_entry(const std::string& path, const ArchiveEntry& entry) {
  return std::make_unique<EntryBytes>(path, entry);
}

}  // namespace unisono::data
