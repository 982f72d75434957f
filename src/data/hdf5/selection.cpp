#include "hdf5/selection.hpp"

#include <fmt/format.h>

#include "unisono/base/text.hpp"

namespace unisono::data::hdf5 {

std::vector<hsize_t> extent_of(hid_t dataset) {
  const Handle space{H5Dget_space(dataset), H5Sclose};
  const int rank = H5Sget_simple_extent_ndims(space.get());
  std::vector<hsize_t> extent(rank > 0 ? static_cast<std::size_t>(rank) : 0);
  if (rank > 0) H5Sget_simple_extent_dims(space.get(), extent.data(), nullptr);
  return extent;
}

RowSelection select_rows(hid_t dataset, std::vector<hsize_t> extent, hsize_t first, hsize_t count) {
  RowSelection selection{{H5Dget_space(dataset), H5Sclose}, {}};
  std::vector<hsize_t> start(extent.size(), 0);
  start[0] = first;
  extent[0] = count;
  H5Sselect_hyperslab(selection.file.get(), H5S_SELECT_SET, start.data(), nullptr, extent.data(), nullptr);
  selection.memory = {H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), H5Sclose};
  return selection;
}

std::string outside(const std::vector<hsize_t>& extent, std::uint64_t first, std::uint64_t count) {
  if (extent.empty()) return "is a scalar, but rows were requested";
  if (first <= extent[0] && count <= extent[0] - first) return "";
  return fmt::format("has {}; rows {} to {} were requested", count_of(static_cast<std::int64_t>(extent[0]), "row"),
                     first, first + count);
}

}  // namespace unisono::data::hdf5
