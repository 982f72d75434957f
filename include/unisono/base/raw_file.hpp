#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unisono/base/file_bytes.hpp"

namespace unisono {

/// What to do about a file that cannot be written, by the error number: "free some space", "make its folder writable".
std::string advice_on(int error);
/// What to do about a file that cannot be written, by a reason that holds the system's words for the error ("No space
/// left on device").
std::string advice_on(const std::string& reason);

/// Identifies a file's version, to recognise it, or to detect a change; empty where it is no file that can be read.
std::string file_version(const std::string& path);

/// A file that is read or overwritten in place; several ranks may do so at the same time. All functions throw DataError
/// in mode `read` and OutputError in mode `update`. Offsets and sizes are in bytes. In mode `read` a Redirection
/// counts.
class RawFile final : public FileBytes {
 public:
  enum class Mode { read, update };
  RawFile(std::string path, Mode mode);
  /// Reads a file that is open already. \param path for messages \param descriptor the caller still has to close it
  RawFile(std::string path, int descriptor);
  ~RawFile() override;
  RawFile(const RawFile&) = delete;
  RawFile& operator=(const RawFile&) = delete;

  std::uint64_t size() const;
  void read(std::uint64_t at, std::span<std::byte> bytes) const override;
  void write(std::uint64_t at, std::span<const std::byte> bytes);
  /// Flushes everything to the disk.
  void sync();

 private:
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  Mode mode_;
  int descriptor_;
  std::shared_ptr<const FileBytes> elsewhere_;  ///< where its bytes are read; null: here
};

// Checksums of checkpoint files. A file ends in a trailer: 17 bytes that say whether the file is sealed, that is
// complete, and 8 bytes that hold its checksum, or any number while it is not sealed. The checksum is the hash of the
// hashes of the file's segments of 64 MiB, so several processes can compute it together.

inline constexpr std::uint64_t kTrailerBytes = 17 + 8;

/// Appends the trailer of an unsealed file, before its data are written. \param number distinguishes the file from
/// others
/// \throws OutputError
void append_open_trailer(const std::string& path, std::uint64_t number);

/// The hashes of segments reader, reader + readers, … of a file with a trailer. \throws DataError where they cannot be
/// read
std::vector<std::uint64_t> hash_segments(const std::string& path, int reader, int readers);

/// How many segments of 64 MiB `bytes` bytes of a file have.
std::uint64_t count_segments(std::uint64_t bytes);
/// The hash of one segment of a file. \param bytes the file's size without the trailer \throws DataError where it
/// cannot be read
std::uint64_t hash_segment(const std::string& path, std::uint64_t bytes, std::uint64_t segment);

/// Seals a file: overwrites its trailer. \param segments the hashes of all segments, in order \throws OutputError
void seal_file(const std::string& path, std::span<const std::uint64_t> segments);

/// Why a file is not sealed, for a message; empty where it is. Reads the trailer only and does not verify the checksum.
std::string missing_seal(const std::string& path);
/// Whether a file is sealed with the checksum of these segment hashes. \throws DataError where it cannot be read
bool fits_seal(const std::string& path, std::span<const std::uint64_t> segments);

/// Copies a sealed file, and checks what it reads against the seal. \param goes_on is asked after each MiB; where it
/// returns false, the copy is left unfinished \return whether the copy is finished; it is not yet flushed to the disk
/// \throws DataError where the file is damaged or cannot be read, OutputError where the copy cannot be written
bool copy_sealed(const std::string& from, const std::string& to, const std::function<bool()>& goes_on);

/// A file's size and trailer, by which another process can recognise the same file; empty where it cannot be read.
std::string seal_fingerprint(const std::string& path);

/// Flushes file `from` to the disk, renames it to `to`, and flushes the folder. \throws OutputError
void sync_and_rename(const std::string& from, const std::string& to);

/// Makes `second` a hard link to `first`, or a copy where the file system has no hard links; replaces an old `second`.
/// \throws OutputError
void link_file(const std::string& first, const std::string& second);

}  // namespace unisono
