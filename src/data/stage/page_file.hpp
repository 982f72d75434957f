#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "unisono/base/open_file.hpp"

namespace unisono::data {

/// Bytes of a page: what is read and checked at once. Part of the format of a copy.
inline constexpr std::uint64_t kPageBytes = 256 << 10;

/// Bytes that the pages in a folder, and their index, take on the disk.
std::uint64_t bytes_on_disk(const std::string& folder);

/// The pages of a file that are copied to a local disk, in two files: `pages` has each page at its place, with holes
/// where pages are missing, and `index` has eight bytes for each page: 0, or the hash of the page. A page is written
/// before its hash, and is read only where its bytes fit the hash. So a process may be killed at any moment, and a
/// system may lose what was not yet on the disk: what is not whole is missing. Several processes may use the files.
class PageFile {
 public:
  /// Opens the two files in a folder, or makes them. \param bytes of the file that is copied \param key makes hashes of
  /// different files differ \throws std::system_error
  PageFile(const std::string& folder, std::uint64_t bytes, std::uint64_t key);

  std::uint64_t pages() const { return (bytes_ + kPageBytes - 1) / kPageBytes; }
  std::uint64_t page_bytes(std::uint64_t page) const;
  std::uint64_t bytes_on_disk() const { return data::bytes_on_disk(folder_); }
  /// How many pages the index names.
  std::uint64_t count() const;

  /// Keeps all other users, processes and objects, from writing these pages, as long as it exists.
  class Claim {
   public:
    Claim(const PageFile& file, std::uint64_t first, std::uint64_t last);
    ~Claim();
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

   private:
    const PageFile& file_;
    std::uint64_t first_, last_;
  };

  enum class Found { missing, damaged, whole };
  /// Reads a page and compares it with its hash. \param to page_bytes(page), overwritten
  Found read_page(std::uint64_t page, std::span<std::byte> to) const;
  /// Reads bytes of pages that were found whole. \return false: the disk does not give them
  bool read_bytes(std::uint64_t at, std::span<std::byte> to) const;
  /// Writes a page, then its hash. \return 0, or the error number \pre the page is claimed
  int write_page(std::uint64_t page, std::span<const std::byte> from);

 private:
  std::uint64_t hash(std::uint64_t page, std::span<const std::byte> bytes) const;

  std::string folder_;
  std::uint64_t bytes_, key_;
  OpenFile pages_, index_;
};

}  // namespace unisono::data
