#include "import/raw_arrays.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "import/bytes.hpp"
#include "import/idx.hpp"
#include "import/npy.hpp"
#include "import/set_writer.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

/// Features that stand as they are stored: bytes for bytes, so that their scale is the training set's.
void require_type(const NpyArray& array, const RawForm& form, const std::string& name) {
  const Preprocessing& trained = form.preprocessing;
  if (!trained.known) {
    throw DataError(
        fmt::format("{}: the model's checkpoint is from an earlier version, which did not record how features are "
                    "stored; use an HDF5 set with --data",
                    name));
  }
  if (array.bytes == trained.bytes) return;
  throw DataError(fmt::format(
      "{}: holds {}, but the model was trained on {}; convert the array with astype", name,
      array.bytes ? "bytes (uint8)" : "numbers other than bytes",
      trained.bytes ? fmt::format("bytes (uint8), which stand for {:g} · byte + {:g}", trained.scale, trained.offset)
                    : "floats"));
}

class ArraySet {
 public:
  ArraySet(const ImportOutput& output, const RawForm& form, const NpyArray& first, std::int64_t examples,
           const std::vector<std::int64_t>& shape)
      : writer_(output) {
    first.bytes ? writer_.create_features<std::uint8_t>("test", examples, shape)
                : writer_.create_features<float>("test", examples, shape);
    const Preprocessing& trained = form.preprocessing;
    if (trained.scale != 1) writer_.file().write_attribute("test/features", "scale", double{trained.scale});
    if (trained.offset != 0) writer_.file().write_attribute("test/features", "offset", double{trained.offset});
  }

  void write(const NpyArray& array, std::int64_t first, std::int64_t count) {
    array.bytes ? writer_.write_features("test", first, count, array.values_of_bytes.data())
                : writer_.write_features("test", first, count, array.values.data());
  }
  void finish() { writer_.finish(); }

 private:
  SetWriter writer_;
};

}  // namespace

void write_raw_array(const std::string& path, const RawForm& form, const ImportOutput& output) {
  const auto bytes = read_bytes(path);
  const NpyArray array = parse_npy(bytes, path);
  require_type(array, form, path);
  if (array.extent.empty() || array.extent[0] == 0) {
    throw DataError(path + ": has no examples; the first axis is the number of examples");
  }
  const std::vector<std::int64_t> shape(array.extent.begin() + 1, array.extent.end());
  ArraySet set(output, form, array, array.extent[0], shape);
  set.write(array, 0, array.extent[0]);
  set.finish();
}

void write_raw_folder(const std::string& folder, const RawForm& form, const ImportOutput& output) {
  std::vector<std::string> paths;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == ".npy") paths.push_back(file.path().string());
  }
  std::sort(paths.begin(), paths.end());
  if (paths.empty()) throw DataError(folder + ": has no .npy files; a folder must hold one .npy file per example");
  std::optional<ArraySet> set;
  std::vector<std::int64_t> shape;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const auto bytes = read_bytes(paths[i]);
    const NpyArray array = parse_npy(bytes, paths[i]);
    require_type(array, form, paths[i]);
    if (!set) {
      shape = array.extent;
      set.emplace(output, form, array, static_cast<std::int64_t>(paths.size()), shape);
    }
    if (array.extent != shape) {
      throw DataError(fmt::format("{}: has the shape {}, but {} has {}", paths[i], array.extent, paths[0], shape));
    }
    set->write(array, static_cast<std::int64_t>(i), 1);
  }
  set->finish();
}

void write_raw_idx(const std::string& path, const RawForm& form, const ImportOutput& output) {
  const auto bytes = read_bytes(path);
  const IdxArray images = parse_idx(bytes, path);
  NpyArray array{
      .extent = images.extent, .bytes = true, .values_of_bytes = {images.values.begin(), images.values.end()}};
  require_type(array, form, path);
  const std::vector<std::int64_t> shape(images.extent.begin() + 1, images.extent.end());
  if (images.extent[0] == 0) throw DataError(path + ": has no images");
  ArraySet set(output, form, array, images.extent[0], shape);
  set.write(array, 0, images.extent[0]);
  set.finish();
}

}  // namespace unisono::data
