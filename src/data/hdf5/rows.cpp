#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "hdf5/library.hpp"
#include "hdf5/state.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data::hdf5 {
namespace {

/// The filter that a dataset's compression needs and the library lacks: "the filter 'lzf'", or nothing.
std::string missing_filter(hid_t properties) {
  for (int i = 0; i < H5Pget_nfilters(properties); ++i) {
    std::array<char, 64> name{};
    std::size_t values = 0;
    unsigned flags = 0;
    const H5Z_filter_t filter = H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr,
                                               name.size(), name.data(), nullptr);
    if (filter >= 0 && H5Zfilter_avail(filter) <= 0) return fmt::format("the filter '{}' ({})", name.data(), filter);
  }
  return "";
}

/// Whether all of a chunked dataset's chunks are in the file.
bool has_all_chunks(hid_t dataset, const DatasetShape& shape) {
  hsize_t stored = 0, all = 1;
  const Handle space{H5Dget_space(dataset), H5Sclose};
  if (H5Dget_num_chunks(dataset, space.get(), &stored) < 0) return true;  // reading will say why
  for (std::size_t axis = 0; axis < shape.extent.size(); ++axis) {
    if (shape.chunk[axis] == 0) return false;
    all *= shape.extent[axis] / shape.chunk[axis] + (shape.extent[axis] % shape.chunk[axis] == 0 ? 0 : 1);
  }
  return stored >= all;
}

/// A property list with which no times are stored, so that equal contents make equal files.
Handle timeless_properties() {
  Handle properties{H5Pcreate(H5P_DATASET_CREATE), H5Pclose};
  H5Pset_obj_track_times(properties.get(), false);
  return properties;
}

/// Likewise, and values are not filled in beforehand.
Handle contiguous_properties() {
  Handle properties = timeless_properties();
  H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER);
  return properties;
}

/// Chunked and compressed as asked for.
Handle creation_properties(const std::vector<hsize_t>& extent, std::uint64_t chunk_rows, int compression) {
  Handle properties = contiguous_properties();
  if (chunk_rows == 0 || extent[0] == 0) return properties;
  std::vector<hsize_t> chunk = extent;
  chunk[0] = std::min<hsize_t>(chunk_rows, extent[0]);
  H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data());
  if (compression > 0) {
    H5Pset_shuffle(properties.get());
    H5Pset_deflate(properties.get(), static_cast<unsigned>(compression));
  }
  return properties;
}

}  // namespace

void File::State::create_dataset(const std::string& dataset, const std::vector<hsize_t>& extent, const Handle& type,
                                 const Handle& properties) const {
  const Handle space{H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose};
  const Handle parents = make_parents();
  const Handle handle{
      H5Dcreate2(file.get(), dataset.c_str(), type.get(), space.get(), parents.get(), properties.get(), H5P_DEFAULT),
      H5Dclose};
  if (!handle.valid()) fail_write(dataset, "cannot be created");
}

DatasetShape File::shape(const std::string& dataset) const {
  const LibraryLock lock;
  if (!state_->parts.empty()) return state_->shape_of_parts(dataset);
  const Handle handle = state_->open_dataset(dataset);
  const std::vector<hsize_t> extent = extent_of(handle.get());
  DatasetShape shape;
  shape.extent.assign(extent.begin(), extent.end());
  const Handle type{H5Dget_type(handle.get()), H5Tclose};
  shape.type = type_of(type.get());
  const Handle properties{H5Dget_create_plist(handle.get()), H5Pclose};
  const H5D_layout_t layout = H5Pget_layout(properties.get());
  if (layout == H5D_CHUNKED) {
    std::vector<hsize_t> chunk(extent.size());
    H5Pget_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data());
    shape.chunk.assign(chunk.begin(), chunk.end());
    if (const std::string filter = missing_filter(properties.get()); !filter.empty()) {
      state_->fail_read(dataset,
                        fmt::format("is compressed with {}, which is not installed; write it with gzip", filter));
    }
    shape.compressed = H5Pget_nfilters(properties.get()) > 0;
    shape.complete = has_all_chunks(handle.get(), shape);
  } else if (layout == H5D_CONTIGUOUS) {
    shape.complete = shape.rows() * shape.row_size() == 0 || H5Dget_storage_size(handle.get()) > 0;
  }
  if (state_->version && shape.complete) {
    state_->check_extent(dataset, handle.get());
    state_->check_sources(dataset, handle.get());
  }
  return shape;
}

template <typename T>
void File::read_rows(const std::string& dataset, std::uint64_t first, std::uint64_t count, T* values) const {
  const LibraryLock lock;
  if (!state_->parts.empty()) {
    const std::uint64_t row_size = state_->rows_of_parts(dataset).row_size;
    return state_->visit_parts(dataset, first, count, [&](const PartOfRows& part) {
      part.file.read_rows(dataset, part.first, part.count, values + part.before * row_size);
    });
  }
  check_stored(dataset);
  const Handle handle = state_->open_dataset(dataset);
  const std::vector<hsize_t> extent = extent_of(handle.get());
  if (const auto wrong = outside(extent, first, count); !wrong.empty()) state_->fail_read(dataset, wrong);
  const Handle stored{H5Dget_type(handle.get()), H5Tclose};
  if (!is_number(type_of(stored.get()))) state_->fail_read(dataset, "holds values that are not plain numbers");
  if (count == 0) return;
  const RowSelection rows = select_rows(handle.get(), extent, first, count);
  const Handle type = memory_type<T>();
  if (H5Dread(handle.get(), type.get(), rows.memory.get(), rows.file.get(), H5P_DEFAULT, values) < 0) {
    state_->fail_read(dataset,
                      fmt::format("rows {} to {} cannot be read; the file may be damaged", first, first + count));
  }
  state_->check_unchanged(dataset);
}

template <typename T>
std::vector<T> File::read(const std::string& dataset) const {
  const LibraryLock lock;
  check_stored(dataset);
  const DatasetShape found = shape(dataset);
  std::vector<T> values(found.rows() * found.row_size());
  read_rows(dataset, 0, found.rows(), values.data());
  return values;
}

template <typename T>
void File::create(const std::string& dataset, const std::vector<std::uint64_t>& extent, std::uint64_t chunk_rows,
                  int compression) {
  const LibraryLock lock;
  const std::vector<hsize_t> dimensions(extent.begin(), extent.end());
  const Handle properties = creation_properties(dimensions, chunk_rows, compression);
  state_->create_dataset(dataset, dimensions, memory_type<T>(), properties);
}

template <typename T>
std::uint64_t File::reserve(const std::string& dataset, const std::vector<std::uint64_t>& extent) {
  const LibraryLock lock;
  const Handle properties = contiguous_properties();
  H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY);
  state_->create_dataset(dataset, {extent.begin(), extent.end()}, memory_type<T>(), properties);
  return offset(dataset);
}

std::uint64_t File::offset(const std::string& dataset) const {
  const LibraryLock lock;
  const Handle handle = state_->open_dataset(dataset);
  const Handle space{H5Dget_space(handle.get()), H5Sclose};
  if (H5Sget_simple_extent_npoints(space.get()) == 0) return 0;
  const haddr_t offset = H5Dget_offset(handle.get());
  if (offset == HADDR_UNDEF) state_->fail_read(dataset, "is not stored contiguously in the file");
  return offset;
}

template <typename T>
void File::write_rows(const std::string& dataset, std::uint64_t first, std::uint64_t count, const T* values) {
  const LibraryLock lock;
  const Handle handle = state_->open_dataset(dataset);
  const std::vector<hsize_t> extent = extent_of(handle.get());
  if (const auto wrong = outside(extent, first, count); !wrong.empty()) state_->fail_write(dataset, wrong);
  if (count == 0) return;
  const RowSelection rows = select_rows(handle.get(), extent, first, count);
  const Handle type = memory_type<T>();
  if (H5Dwrite(handle.get(), type.get(), rows.memory.get(), rows.file.get(), H5P_DEFAULT, values) < 0) {
    state_->fail_write(dataset, "cannot be written");
  }
}

template <typename T>
void File::write(const std::string& dataset, const std::vector<T>& values) {
  const LibraryLock lock;
  create<T>(dataset, {values.size()});
  write_rows(dataset, 0, values.size(), values.data());
}

#define UNISONO_INSTANTIATE(T)                                                                              \
  template void File::read_rows<T>(const std::string&, std::uint64_t, std::uint64_t, T*) const;             \
  template std::vector<T> File::read<T>(const std::string&) const;                                          \
  template void File::create<T>(const std::string&, const std::vector<std::uint64_t>&, std::uint64_t, int); \
  template std::uint64_t File::reserve<T>(const std::string&, const std::vector<std::uint64_t>&);           \
  template void File::write_rows<T>(const std::string&, std::uint64_t, std::uint64_t, const T*);            \
  template void File::write<T>(const std::string&, const std::vector<T>&)
UNISONO_INSTANTIATE(std::uint8_t);
UNISONO_INSTANTIATE(std::uint16_t);
UNISONO_INSTANTIATE(std::uint32_t);
UNISONO_INSTANTIATE(std::int32_t);
UNISONO_INSTANTIATE(std::int64_t);
UNISONO_INSTANTIATE(std::uint64_t);
UNISONO_INSTANTIATE(Half);
UNISONO_INSTANTIATE(float);
UNISONO_INSTANTIATE(double);
#undef UNISONO_INSTANTIATE

// Lists of strings stored as plain numbers: a group with one dataset of all bytes, and one of the offsets where each
// string begins and ends. Unlike HDF5's own strings they contain no addresses in the file, and a hash detects damage.

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
  if (!state_->parts.empty()) return state_->rows_of_parts(list).begins.back();
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
  if (!state_->parts.empty()) {
    std::vector<std::string> all;
    state_->visit_parts(dataset, first, count, [&](const PartOfRows& part) {
      const bool whole = part.count == part.file.count_strings(dataset);  // then their hash is checked
      const auto some =
          whole ? part.file.read_strings(dataset) : part.file.read_strings(dataset, part.first, part.count);
      all.insert(all.end(), some.begin(), some.end());
    });
    return all;
  }
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
  const Handle holder{H5Iget_file_id(handle.get()), H5Fclose};
  auto values = state_->read_texts(
      {.object = dataset, .what = "", .stored = stored.get(), .holder = holder.get(), .count = count, .read = read});
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
  const Handle type = text_type(), parents = make_parents(), properties = timeless_properties();
  const Handle handle{H5Dcreate2(state_->file.get(), dataset.c_str(), type.get(), space.get(), parents.get(),
                                 properties.get(), H5P_DEFAULT),
                      H5Dclose};
  if (!handle.valid()) state_->fail_write(dataset, "cannot be created");
  for (std::uint64_t first = 0; first < size; first += kStringsAtATime) {
    std::vector<const char*> texts;
    for (std::uint64_t i = first; i < std::min<std::uint64_t>(size, first + kStringsAtATime); ++i)
      texts.push_back(values[i].c_str());
    const RowSelection rows = select_rows(handle.get(), {size}, first, texts.size());
    if (H5Dwrite(handle.get(), type.get(), rows.memory.get(), rows.file.get(), H5P_DEFAULT, texts.data()) < 0)
      state_->fail_write(dataset, "cannot be written");
  }
}

}  // namespace unisono::data::hdf5
