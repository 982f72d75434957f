#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tensors/readers.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {
namespace {

constexpr std::string_view kParameters = "parameters";
constexpr std::string_view kExportGroups[] = {kParameters, "statistics", "normalization", "decision"};

constexpr std::pair<hdf5::Type, std::string_view> kHdf5Types[] = {
    {hdf5::Type::float64, "F64"}, {hdf5::Type::float32, "F32"}, {hdf5::Type::float16, "F16"}};

std::string type_of_dataset(hdf5::Type type) {
  const auto* const found = std::ranges::find(kHdf5Types, type, [](const auto& pair) { return pair.first; });
  return std::string(found == std::end(kHdf5Types) ? hdf5::name_of(type) : found->second);
}

/// Datasets that are stored one after the other come first, in that order.
using FileOrder = std::tuple<bool, std::uint64_t, std::string>;

FileOrder place_of(const hdf5::File& file, const hdf5::DatasetShape& shape, const std::string& dataset) {
  const bool contiguous = shape.chunk.empty() && shape.complete;
  return {!contiguous, contiguous ? file.offset(dataset) : 0, dataset};
}

}  // namespace

bool is_hdf5_export(const std::string& path) {
  if (!hdf5::is_hdf5(path)) return false;
  const hdf5::File file(path, hdf5::File::Mode::read);
  const std::vector<std::string> groups = file.children("");
  const auto is_known = [](const std::string& group) { return std::ranges::count(kExportGroups, group) > 0; };
  return std::ranges::count(groups, kParameters) > 0 && std::ranges::all_of(groups, is_known) &&
         !file.is_dataset(std::string(kParameters));
}

StoredTensors read_hdf5_tensors(const std::string& path) {
  const hdf5::File file(path, hdf5::File::Mode::read);
  file.require_own_values("copy its values into this file");
  std::vector<std::pair<FileOrder, StoredTensor>> found;
  for (const std::string& group : file.children("")) {
    if (file.is_dataset(group)) continue;
    for (const std::string& name : file.children(group)) {
      const std::string dataset = group + "/" + name;
      if (!file.is_dataset(dataset))
        throw DataError(fmt::format("{}: /{} is no dataset; export it again", path, dataset));
      if (!is_utf8(name)) throw DataError(fmt::format("{}: the name /{} is not UTF-8; export it again", path, dataset));
      const hdf5::DatasetShape shape = file.shape(dataset);
      if (std::ranges::any_of(shape.extent, [](std::uint64_t n) { return n > INT64_MAX; })) {
        throw DataError(fmt::format("{}: /{} has an impossible shape; export it again", path, dataset));
      }
      found.emplace_back(place_of(file, shape, dataset),
                         StoredTensor{.file = path,
                                      .type = type_of_dataset(shape.type),
                                      .shape = {shape.extent.begin(), shape.extent.end()},
                                      .format = TensorFormat::hdf5,
                                      .name = name,
                                      .group = group});
    }
  }
  std::ranges::sort(found, {}, [](const auto& one) -> const FileOrder& { return one.first; });
  StoredTensors tensors;
  for (auto& [place, tensor] : found) {
    tensor.number = std::ssize(tensors);
    const std::string name = tensor.name;
    if (!tensors.emplace(name, std::move(tensor)).second) {
      throw DataError(fmt::format("{}: '{}' is in two groups; export it again", path, name));
    }
  }
  return tensors;
}

std::unique_ptr<ArrayReader> open_hdf5_tensor(const StoredTensor& tensor) {
  return open_hdf5_array(tensor.file, tensor.group + "/" + tensor.name);
}

}  // namespace unisono::data
