#include "hdf5/chunks.hpp"

#include <zlib.h>

#include <array>
#include <vector>

#include "hdf5/handle.hpp"

namespace unisono::data::hdf5 {
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

/// Whether a filter of the pipeline was applied to a chunk. \param skipped the chunk's mask
bool has_filter(hid_t properties, H5Z_filter_t wanted, unsigned skipped) {
  for (int i = 0; i < H5Pget_nfilters(properties); ++i) {
    std::size_t values = 0;
    unsigned flags = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, nullptr);
    if (filter == wanted) return (skipped >> i & 1U) == 0;
  }
  return false;
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

}  // namespace

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

}  // namespace unisono::data::hdf5
