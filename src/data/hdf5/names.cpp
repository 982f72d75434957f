// Lists of strings stored as plain numbers: a group with one dataset of all bytes, and one of the offsets where each
// string begins and ends. Unlike HDF5's own strings they contain no addresses in the file, and a hash detects damage.
#include <fmt/format.h>

#include <algorithm>

#include "hdf5/state.hpp"
#include "unisono/base/hash.hpp"
#include "unisono/base/text.hpp"

namespace unisono::data::hdf5 {
namespace {

constexpr const char* kHash = "xxh3";

std::string bytes_of(const std::string& names) { return names + "/bytes"; }
std::string offsets_of(const std::string& names) { return names + "/offsets"; }

std::int64_t hash_of(std::string_view bytes, const std::vector<std::uint64_t>& offsets) {
  return static_cast<std::int64_t>(hash_bytes(std::as_bytes(std::span(offsets)), hash_bytes(bytes)));
}

/// String i is bytes [offsets[i], offsets[i + 1]).
bool ascend(const std::vector<std::uint64_t>& offsets, std::uint64_t end) {
  return std::is_sorted(offsets.begin(), offsets.end()) && offsets.back() <= end;
}

}  // namespace

void File::write_names(const std::string& names, const std::vector<std::string>& values) {
  const LibraryLock lock;
  std::vector<std::uint64_t> offsets{0};
  offsets.reserve(values.size() + 1);
  for (const std::string& value : values) offsets.push_back(offsets.back() + value.size());
  std::vector<std::uint8_t> bytes;
  bytes.reserve(offsets.back());
  for (const std::string& value : values) bytes.insert(bytes.end(), value.begin(), value.end());
  create_group(names);
  write(bytes_of(names), bytes);
  write(offsets_of(names), offsets);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  write_attribute(names, kHash, hash_of(text, offsets));
}

std::uint64_t File::count_strings(const std::string& list) const {
  const LibraryLock lock;
  if (is_dataset(list)) {
    check_stored(list);
    return shape(list).rows();
  }
  if (!exists(bytes_of(list)) || !exists(offsets_of(list))) state_->fail_read(list, "is not a list of strings");
  check_stored(bytes_of(list));
  check_stored(offsets_of(list));
  const DatasetShape bytes = shape(bytes_of(list)), offsets = shape(offsets_of(list));
  if (bytes.extent.size() != 1 || bytes.type != Type::uint8 || offsets.extent.size() != 1 || offsets.rows() == 0 ||
      offsets.type != Type::uint64)
    state_->fail_read(list,
                      "is not a list of strings: 'bytes' [n] must be uint8 and 'offsets' [strings + 1] must be uint64");
  return offsets.rows() - 1;
}

std::vector<std::string> File::read_names(const std::string& names, std::uint64_t first, std::uint64_t count) const {
  const std::uint64_t all = count_strings(names);
  if (first > all || count > all - first) {
    state_->fail_read(names, fmt::format("has {}; strings {} to {} were requested",
                                         count_of(static_cast<std::int64_t>(all), "string"), first, first + count));
  }
  const auto fail = [&] { state_->fail_read(names, "is damaged: its checksum does not match; make the file again"); };
  const std::uint64_t bytes = shape(bytes_of(names)).rows();
  std::vector<std::uint64_t> offsets(count + 1);
  read_rows(offsets_of(names), first, count + 1, offsets.data());
  if (!ascend(offsets, bytes)) fail();
  std::string text(offsets.back() - offsets.front(), '\0');
  read_rows(bytes_of(names), offsets.front(), text.size(), reinterpret_cast<std::uint8_t*>(text.data()));
  if (count == all && has_attribute(names, kHash) &&
      read_attribute<std::int64_t>(names, kHash) != hash_of(text, offsets))
    fail();
  std::vector<std::string> values;
  values.reserve(count);
  for (std::size_t i = 0; i < count; ++i)
    values.push_back(text.substr(offsets[i] - offsets[0], offsets[i + 1] - offsets[i]));
  return values;
}

}  // namespace unisono::data::hdf5
