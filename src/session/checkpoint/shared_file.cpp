#include "checkpoint/shared_file.hpp"

#include "unisono/base/raw_file.hpp"

namespace unisono::session {
namespace {

/// The hashes of this rank's segments; none if the file cannot be read, so that the seal does not match.
std::vector<std::uint64_t> hash_what_can_be_read(const std::string& path, int reader, int readers) {
  try {
    if (reader < readers) return hash_segments(path, reader, readers);
  } catch (const DataError&) {
  }
  return {};
}

}  // namespace

bool all_see(comm::Communicator& group, const std::string& path) {
  const std::string mine = seal_fingerprint(path), roots = group.broadcast_text(mine);
  return group.max(static_cast<std::int64_t>(mine.empty() || mine != roots)) == 0;
}

std::vector<std::uint64_t> gather_hashes(comm::Communicator& group, const std::vector<std::uint64_t>& own,
                                         int readers) {
  const auto parts = group.all_gather_vectors(own);
  std::size_t count = 0;
  for (const auto& part : parts) count += part.size();
  std::vector<std::uint64_t> hashes(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto& part = parts[i % static_cast<std::size_t>(readers)];
    const std::size_t at = i / static_cast<std::size_t>(readers);
    if (at < part.size()) hashes[i] = part[at];
  }
  return hashes;
}

std::string broken_seal(comm::Communicator& group, const std::string& path, int readers) {
  std::string missing = group.broadcast_text(group.is_root() ? missing_seal(path) : "");
  if (!missing.empty()) return missing;
  const auto hashes = gather_hashes(group, hash_what_can_be_read(path, group.rank(), readers), readers);
  const bool fits = !group.is_root() || fits_seal(path, hashes);
  return group.max(static_cast<std::int64_t>(!fits)) == 0
             ? ""
             : path + " is damaged: its checksum does not match its contents";
}

}  // namespace unisono::session
