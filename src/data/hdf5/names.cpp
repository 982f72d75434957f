// Lists of strings stored as plain numbers: a group with one dataset of all bytes, and one of the offsets where each
// string begins and ends. Unlike HDF5's own strings they contain no addresses in the file, and a hash detects damage.
#include <fmt/format.h>

#include <algorithm>

#include "hdf5/selection.hpp"
#include "hdf5/state.hpp"
#include "hdf5/types.hpp"
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

constexpr std::uint64_t kStringsAtATime = 1 << 16;

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

std::vector<std::string> File::read_strings(const std::string& dataset, std::uint64_t first,
                                            std::uint64_t count) const {
  const LibraryLock lock;
  if (!is_dataset(dataset)) return read_names(dataset, first, count);
  const Handle handle = state_->open_dataset(dataset);
  const Handle stored{H5Dget_type(handle.get()), H5Tclose};
  const std::vector<hsize_t> extent = extent_of(handle.get());
  if (H5Tget_class(stored.get()) != H5T_STRING || extent.size() != 1)
    state_->fail_read(dataset, "is not a list of strings");
  check_stored(dataset);
  if (const auto wrong = outside(extent, first, count); !wrong.empty()) state_->fail_read(dataset, wrong);
  if (count == 0) return {};
  const RowSelection rows = select_rows(handle.get(), extent, first, count);
  const auto read = [&](hid_t type, void* to) {
    return H5Dread(handle.get(), type, rows.memory.get(), rows.file.get(), H5P_DEFAULT, to) >= 0;
  };
  auto values =
      state_->read_texts({.object = dataset, .what = "", .stored = stored.get(), .count = count, .read = read});
  state_->check_unchanged(dataset);
  return values;
}

std::vector<std::string> File::read_strings(const std::string& dataset) const {
  const LibraryLock lock;
  return read_strings(dataset, 0, count_strings(dataset));
}

void File::write_strings(const std::string& dataset, const std::vector<std::string>& values) {
  const LibraryLock lock;
  const hsize_t size = values.size();
  const Handle space{H5Screate_simple(1, &size, nullptr), H5Sclose};
  const Handle type = text_type(), parents = make_parents();
  const Handle handle{
      H5Dcreate2(state_->file.get(), dataset.c_str(), type.get(), space.get(), parents.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Dclose};
  if (!handle.valid()) state_->fail_write(dataset, "cannot be created");
  for (std::uint64_t first = 0; first < size; first += kStringsAtATime) {
    std::vector<const char*> texts;
    for (std::uint64_t i = first; i < std::min<std::uint64_t>(size, first + kStringsAtATime); ++i)
      texts.push_back(values[i].c_str());
    const RowSelection rows = select_rows(handle.get(), {size}, first, texts.size());
    if (H5Dwrite(handle.get(), type.get(), rows.memory.get(), rows.file.get(), H5P_DEFAULT, texts.data()) < 0)
      state_->fail_write(dataset, "cannot be written; is the disk full?");
  }
}

}  // namespace unisono::data::hdf5
