#include "set/external.hpp"

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "set/joined.hpp"
#include "unisono/base/file_pattern.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/raw_file.hpp"

namespace unisono::data {
namespace {

constexpr std::uint64_t kPartBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostParts = 64;
constexpr int kMostNested = 8;  // files that refer to files

std::uint64_t hash_of_contents(const std::string& path, std::uint64_t hash) {
  const RawFile file(path, RawFile::Mode::read);
  const std::uint64_t bytes = file.size(), parts = (bytes + kPartBytes - 1) / kPartBytes;
  const std::uint64_t read = std::min(parts, kMostParts);
  hash = hash_bytes(std::as_bytes(std::span(&bytes, 1)), hash);
  std::vector<std::byte> part;
  for (std::uint64_t i = 0; i < read; ++i) {
    const std::uint64_t begin = (parts <= kMostParts ? i : i * (parts - 1) / (kMostParts - 1)) * kPartBytes;
    part.resize(static_cast<std::size_t>(std::min(kPartBytes, bytes - begin)));
    file.read(begin, part);
    hash = hash_bytes(part, hash);
  }
  return hash;
}

std::uint64_t hash_of_references(const hdf5::File& file, int nested) {
  std::uint64_t hash = 0;
  for (const hdf5::ExternalReference& reference : file.external_references()) {
    hash = hash_bytes(reference.object + '\0' + reference.name, hash + 1);
    const auto place = std::find_if(reference.places.begin(), reference.places.end(), [](const std::string& candidate) {
      std::error_code ignored;
      return std::filesystem::is_regular_file(candidate, ignored);
    });
    if (place == reference.places.end()) continue;  // reading a value of it gives the error
    hash = hash_of_contents(*place, hash);
    if (!reference.is_hdf5 || nested == kMostNested) continue;
    hash ^= hash_of_references({*place, hdf5::File::Mode::read}, nested + 1);
  }
  return hash;
}

}  // namespace

hdf5::File open_set_file(const std::string& path, bool external_files) {
  if (is_file_pattern(path)) return open_joined(path, external_files);
  hdf5::File file(path, hdf5::File::Mode::read);
  if (!external_files) {
    file.require_own_values(
        "whoever made the set chose that file; check it, and allow it by data.external_files = true (for commands on a "
        "file, --external-files), or write its values into the set");
  }
  return file;
}

std::uint64_t hash_of_external_files(const hdf5::File& file) { return hash_of_references(file, 0); }

}  // namespace unisono::data
