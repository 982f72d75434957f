#include "hdf5/state.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>

#include "hdf5/structure.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data::hdf5 {
namespace {

/// A type conversion, for the library, that changes nothing.
herr_t keep_bytes(hid_t from, hid_t to, H5T_cdata_t* state, std::size_t, std::size_t, std::size_t, void*, void*,
                  hid_t) {
  if (state->command != H5T_CONV_INIT) return 0;
  state->need_bkg = H5T_BKG_NO;
  return H5Tget_size(from) == HeapReference::kBytes && H5Tget_size(to) == HeapReference::kBytes ? 0 : -1;
}

/// Strings of `length` bytes each. They end at a zero byte or use all bytes; Fortran's are padded with blanks.
std::vector<std::string> cut_fixed(const std::string& text, std::size_t length, bool blanks) {
  std::vector<std::string> values;
  for (std::size_t at = 0; at < text.size(); at += length) {
    values.emplace_back(text.substr(at, length).c_str());
    if (blanks) values.back().erase(values.back().find_last_not_of(' ') + 1);
  }
  return values;
}

}  // namespace

Handle reference_type() {
  Handle type{H5Tcreate(H5T_OPAQUE, HeapReference::kBytes), H5Tclose};
  // Registered once per process: conversions belong to the library, not to a file.
  static const herr_t registered =
      H5Tregister(H5T_PERS_SOFT, "stored reference", text_type().get(), type.get(), keep_bytes);
  static_cast<void>(registered);  // if this fails, the next read fails, too
  return type;
}

std::vector<std::string> File::State::read_texts(const Texts& texts) const {
  const bool variable = H5Tis_variable_str(texts.stored) > 0;
  const std::size_t length = variable ? HeapReference::kBytes : H5Tget_size(texts.stored);
  const RawFile bytes_of_file = raw(texts.holder);
  if (length == 0 || texts.count > kMostInflated * bytes_of_file.size() / length)
    fail_read(texts.object, texts.what + "is damaged: its strings are longer than the file");
  std::string bytes(length * texts.count, '\0');
  const Handle references = reference_type();
  if (!texts.read(variable ? references.get() : texts.stored, bytes.data()))
    fail_read(texts.object, texts.what + "cannot be read; the file may be damaged");
  if (!variable) return cut_fixed(bytes, length, H5Tget_strpad(texts.stored) == H5T_STR_SPACEPAD);
  return follow(texts, std::as_bytes(std::span(bytes)), bytes_of_file);
}

std::vector<std::string> File::State::follow(const Texts& texts, std::span<const std::byte> references,
                                             const RawFile& bytes_of_file) const {
  const Handle creation{H5Fget_create_plist(texts.holder), H5Pclose};
  hsize_t base = 0;
  H5Pget_userblock(creation.get(), &base);
  HeapReader heap(bytes_of_file, base);
  std::vector<std::string> values;
  values.reserve(texts.count);
  try {
    for (std::size_t at = 0; at < references.size(); at += HeapReference::kBytes)
      values.push_back(heap.string_at(decode_reference(references.data() + at)));
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: /{} {}{}; make the file again", path, texts.object, texts.what, error.what()));
  }
  return values;
}

// Compares the extents that a (possibly damaged) file claims with what it can hold, before memory of that size is
// allocated.

namespace {

constexpr std::uint64_t kFletcherBytes = 4;

/// Whether a zlib stream inflates to so many bytes. Also true for an invalid stream: the library reports that when it
/// reads the chunk.
bool inflates_to(std::vector<std::uint8_t>& stream, std::uint64_t expected) {
  z_stream unpacking{};
  if (inflateInit(&unpacking) != Z_OK) return true;
  std::array<std::uint8_t, 1 << 14> out{};
  unpacking.next_in = stream.data();
  unpacking.avail_in = static_cast<uInt>(stream.size());
  int result = Z_OK;
  while (result == Z_OK && unpacking.total_out <= expected) {
    unpacking.next_out = out.data();
    unpacking.avail_out = static_cast<uInt>(out.size());
    result = inflate(&unpacking, Z_NO_FLUSH);
  }
  const std::uint64_t bytes = unpacking.total_out;
  inflateEnd(&unpacking);
  return bytes == expected || (result != Z_OK && result != Z_STREAM_END);
}

std::vector<H5Z_filter_t> filters_of(hid_t properties) {
  std::vector<H5Z_filter_t> filters;
  for (int i = 0; i < H5Pget_nfilters(properties); ++i) {
    std::size_t values = 0;
    unsigned flags = 0;
    filters.push_back(
        H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr));
  }
  return filters;
}

/// Whether a filter of the pipeline was applied to a chunk. \param skipped the chunk's mask
bool has_filter(hid_t properties, H5Z_filter_t wanted, unsigned skipped) {
  const std::vector<H5Z_filter_t> filters = filters_of(properties);
  const auto found = std::ranges::find(filters, wanted);
  return found != filters.end() && (skipped >> (found - filters.begin()) & 1U) == 0;
}

/// chunks_fit for a dataset whose only filters are shuffle, deflate and fletcher32.
bool first_chunk_fits(hid_t dataset, hid_t properties, std::uint64_t bytes, std::uint64_t file_bytes) {
  std::array<hsize_t, H5S_MAX_RANK> offset{};
  unsigned skipped = 0;
  haddr_t address = 0;
  hsize_t size = 0;
  const Handle space{H5Dget_space(dataset), H5Sclose};
  if (H5Dget_chunk_info(dataset, space.get(), 0, offset.data(), &skipped, &address, &size) < 0 || size > file_bytes)
    return false;
  std::vector<std::uint8_t> chunk(size);
  if (H5Dread_chunk(dataset, H5P_DEFAULT, offset.data(), &skipped, chunk.data()) < 0) return false;
  if (has_filter(properties, H5Z_FILTER_FLETCHER32, skipped)) {
    if (chunk.size() < kFletcherBytes) return false;
    chunk.resize(chunk.size() - kFletcherBytes);
  }
  if (!has_filter(properties, H5Z_FILTER_DEFLATE, skipped)) return chunk.size() == bytes;
  return inflates_to(chunk, bytes);
}

/// Whether a dataset's chunks have as many bytes as their extents say; of compressed chunks only the first is checked.
/// The library (1.10) does not check this, and reads beyond the end of a chunk that is too small.
/// \param value_bytes of a value in the file \param file_bytes more than these are not read
bool chunks_fit(hid_t dataset, hid_t properties, std::uint64_t value_bytes, std::uint64_t file_bytes) {
  std::array<hsize_t, H5S_MAX_RANK> chunk{};
  const int axes = H5Pget_chunk(properties, static_cast<int>(chunk.size()), chunk.data());
  std::uint64_t bytes = value_bytes;
  for (int axis = 0; axis < axes; ++axis) {
    if (__builtin_mul_overflow(bytes, chunk[static_cast<std::size_t>(axis)], &bytes)) return false;
  }
  hsize_t chunks = 0;
  const Handle space{H5Dget_space(dataset), H5Sclose};
  if (axes < 1 || H5Dget_num_chunks(dataset, space.get(), &chunks) < 0) return false;
  if (chunks == 0) return true;
  if (H5Pget_nfilters(properties) == 0) return H5Dget_storage_size(dataset) == chunks * bytes;
  return first_chunk_fits(dataset, properties, bytes, file_bytes);
}

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

/// Bytes of all values; nothing if that overflows 64 bits. An extent of 0 counts as 1, so that absurd other extents of
/// an empty dataset are found, too.
std::optional<std::uint64_t> bytes_of(const std::vector<hsize_t>& extent, std::size_t size) {
  std::uint64_t bytes = size;
  for (const hsize_t n : extent) {
    if (n > 1 && __builtin_mul_overflow(bytes, n, &bytes)) return std::nullopt;
  }
  return bytes;
}

/// Whether the chunks have only filters with a known maximum compression.
bool is_deflated_at_most(hid_t properties) {
  return std::ranges::all_of(filters_of(properties), [](H5Z_filter_t filter) {
    return filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_SHUFFLE || filter == H5Z_FILTER_FLETCHER32;
  });
}

/// Upper bound of the bytes of a dataset's values, from its storage in the file; for an empty dataset, from the file's
/// size.
std::uint64_t most_bytes(hid_t dataset, hid_t properties, bool empty, std::uint64_t file_bytes) {
  if (empty) return file_bytes;
  const H5D_layout_t layout = H5Pget_layout(properties);
  if (layout == H5D_VIRTUAL || H5Pget_external_count(properties) > 0) return kNoLimit;  // the values are in other files
  const std::uint64_t stored = std::min<std::uint64_t>(H5Dget_storage_size(dataset), file_bytes);
  if (layout != H5D_CHUNKED || H5Pget_nfilters(properties) == 0) return stored;
  return is_deflated_at_most(properties) ? kMostInflated * stored : kNoLimit;
}

}  // namespace

std::uint64_t File::State::bytes_of_holder(hid_t object) const {
  // What else is known of an object, such as the size of its header, HDF5 computes from damaged headers, and may crash.
  H5O_info_t own{}, other{};
  H5Oget_info2(file.get(), &own, H5O_INFO_BASIC);
  H5Oget_info2(object, &other, H5O_INFO_BASIC);
  if (own.fileno == other.fileno) return static_cast<std::uint64_t>(version->bytes);
  const Handle holder{H5Iget_file_id(object), H5Fclose};
  return raw(holder.get()).size();
}

void File::State::check_extent(const std::string& dataset, hid_t handle) const {
  const std::vector<hsize_t> extent = extent_of(handle);
  const Handle type{H5Dget_type(handle), H5Tclose}, properties{H5Dget_create_plist(handle), H5Pclose};
  const std::size_t size =
      H5Tis_variable_str(type.get()) > 0 ? HeapReference::kBytes : std::max<std::size_t>(1, H5Tget_size(type.get()));
  const auto bytes = bytes_of(extent, size);
  const bool empty = std::find(extent.begin(), extent.end(), 0) != extent.end();
  const std::uint64_t file_bytes = bytes_of_holder(handle);
  const bool chunked = H5Pget_layout(properties.get()) == H5D_CHUNKED && is_deflated_at_most(properties.get());
  if (bytes && *bytes <= most_bytes(handle, properties.get(), empty, file_bytes) &&
      (!chunked || empty || chunks_fit(handle, properties.get(), size, file_bytes)))
    return;
  fail_read(dataset,
            fmt::format("has shape {}, but the file is too small for it: the file is damaged; make it again", extent));
}

void File::check_stored(const std::string& dataset) const {
  if (!state_->version || state_->checked.contains(dataset)) return;
  if (!shape(dataset).complete) {
    state_->fail_read(dataset,
                      "was not written completely; was the program that wrote it interrupted? Make the file again");
  }
  state_->checked.insert(dataset);
}

}  // namespace unisono::data::hdf5
