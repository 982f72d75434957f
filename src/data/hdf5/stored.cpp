// Compares the extents that a (possibly damaged) file claims with what it can hold, before memory of that size is
// allocated.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "hdf5/chunks.hpp"
#include "hdf5/heap.hpp"
#include "hdf5/selection.hpp"
#include "hdf5/state.hpp"

namespace unisono::data::hdf5 {
namespace {

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
  for (int i = 0; i < H5Pget_nfilters(properties); ++i) {
    std::size_t values = 0;
    unsigned flags = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr);
    if (filter != H5Z_FILTER_DEFLATE && filter != H5Z_FILTER_SHUFFLE && filter != H5Z_FILTER_FLETCHER32) return false;
  }
  return true;
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

void File::State::check_extent(const std::string& dataset, hid_t handle) const {
  const std::vector<hsize_t> extent = extent_of(handle);
  const Handle type{H5Dget_type(handle), H5Tclose}, properties{H5Dget_create_plist(handle), H5Pclose};
  const std::size_t size =
      H5Tis_variable_str(type.get()) > 0 ? HeapReference::kBytes : std::max<std::size_t>(1, H5Tget_size(type.get()));
  const auto bytes = bytes_of(extent, size);
  const bool empty = std::find(extent.begin(), extent.end(), 0) != extent.end();
  const auto file_bytes = static_cast<std::uint64_t>(version->bytes);
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
