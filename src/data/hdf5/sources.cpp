#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "hdf5/external.hpp"
#include "hdf5/library.hpp"
#include "hdf5/state.hpp"
#include "unisono/base/errors.hpp"

// Datasets whose values are in other files: virtual ones, and those with external raw storage. The library gives zeros
// where a source is missing or too small.
namespace unisono::data::hdf5 {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdvice =
    "its values would be read as zeros; put the file in its place, or write the values into this file";
constexpr int kMostNested = 8;  // virtual datasets of virtual datasets

std::vector<hsize_t> extent_of_space(hid_t space) {
  std::vector<hsize_t> extent(static_cast<std::size_t>(std::max(0, H5Sget_simple_extent_ndims(space))));
  H5Sget_simple_extent_dims(space, extent.data(), nullptr);
  return extent;
}

/// What is wrong with the sources of a dataset; empty: nothing. \param nested how many virtual ones lead to it
std::string wrong_with_dataset(hid_t file, const std::string& path, hid_t dataset, int nested);

/// What is wrong with one source. \param selected what is taken from it
std::string wrong_with_source(hid_t file, const std::string& path, const std::string& source, const std::string& name,
                              hid_t selected, int nested) {
  Handle opened;
  std::string where = path;
  if (source != ".") {
    for (const std::string& place : places_of_source(source, path)) {
      std::error_code ignored;
      if (!fs::is_regular_file(place, ignored)) continue;
      opened = Handle{H5Fopen(place.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose};
      where = place;
      if (opened.valid()) break;
    }
    if (!opened.valid())
      return fmt::format("is virtual, and its source file '{}' cannot be opened: {}", source, kAdvice);
  }
  const Handle dataset{H5Dopen2(source == "." ? file : opened.get(), name.c_str(), H5P_DEFAULT), H5Dclose};
  if (!dataset.valid())
    return fmt::format("is virtual, and its source file '{}' has no dataset '{}': {}", source, name, kAdvice);
  const Handle space{H5Dget_space(dataset.get()), H5Sclose};
  const std::vector<hsize_t> extent = extent_of_space(space.get());
  std::vector<hsize_t> first(extent.size()), last(extent.size());
  const bool same_axes = H5Sget_simple_extent_ndims(selected) == static_cast<int>(extent.size());
  const bool bounded = same_axes && H5Sget_select_bounds(selected, first.data(), last.data()) >= 0;
  for (std::size_t axis = 0; bounded && axis < extent.size(); ++axis) {
    if (last[axis] >= extent[axis])
      return fmt::format("is virtual, and '{}' in its source file '{}' is smaller than what is taken from it: {}", name,
                         source, kAdvice);
  }
  return wrong_with_dataset(source == "." ? file : opened.get(), where, dataset.get(), nested + 1);
}

std::string wrong_with_virtual(hid_t file, const std::string& path, hid_t dataset, int nested) {
  if (nested > kMostNested) return "is virtual, and so are its sources, too many times";
  const Handle properties{H5Dget_create_plist(dataset), H5Pclose}, space{H5Dget_space(dataset), H5Sclose};
  const std::vector<VirtualSource> sources = virtual_sources(properties.get());
  hssize_t mapped = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto& [source, name] = sources[i];
    const Handle into{H5Pget_virtual_vspace(properties.get(), i), H5Sclose};
    const Handle from{H5Pget_virtual_srcspace(properties.get(), i), H5Sclose};
    if (source.find('%') != std::string::npos || name.find('%') != std::string::npos)
      return "is virtual with numbered sources, which may be missing without a word; write the values into this file";
    const std::string wrong = wrong_with_source(file, path, source, name, from.get(), nested);
    if (!wrong.empty()) return wrong;
    const hssize_t points = H5Sget_select_npoints(into.get());
    if (points < 0) return "";  // unlimited: as far as its source goes
    mapped += points;
  }
  if (mapped >= H5Sget_simple_extent_npoints(space.get())) return "";
  return fmt::format(
      "is virtual, and its sources cover {} of its {} values: the others would be read as zeros; write "
      "all values into this file",
      mapped, H5Sget_simple_extent_npoints(space.get()));
}

/// External raw storage: parts of plain files.
std::string wrong_with_raw_files(hid_t dataset) {
  const Handle properties{H5Dget_create_plist(dataset), H5Pclose}, space{H5Dget_space(dataset), H5Sclose};
  const Handle type{H5Dget_type(dataset), H5Tclose};
  std::uint64_t left = static_cast<std::uint64_t>(std::max<hssize_t>(0, H5Sget_simple_extent_npoints(space.get()))) *
                       H5Tget_size(type.get());
  for (const RawFilePart& part : raw_file_parts(properties.get())) {
    const std::uint64_t needed = std::min(left, part.bytes);
    std::error_code error;
    const auto bytes = fs::file_size(part.place, error);
    if (error)
      return fmt::format("has its values in the file '{}', which cannot be read: {}", part.name, error.message());
    if (bytes < part.offset + needed)
      return fmt::format("has its values in the file '{}', which is too small: {}", part.name, kAdvice);
    left -= needed;
  }
  return "";
}

std::string wrong_with_dataset(hid_t file, const std::string& path, hid_t dataset, int nested) {
  const Handle properties{H5Dget_create_plist(dataset), H5Pclose};
  if (H5Pget_layout(properties.get()) == H5D_VIRTUAL) return wrong_with_virtual(file, path, dataset, nested);
  return H5Pget_external_count(properties.get()) > 0 ? wrong_with_raw_files(dataset) : "";
}

}  // namespace

void File::State::check_sources(const std::string& dataset, hid_t handle) const {
  const std::string wrong = wrong_with_dataset(file.get(), path, handle, 0);
  if (!wrong.empty()) throw DataError(fmt::format("{}: /{} {}", path, dataset, wrong));
}

}  // namespace unisono::data::hdf5
