#include "unisono/data/import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "import/raw_formats.hpp"
#include "import/rows.hpp"
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
  if (array.bytes) {
    throw DataError(fmt::format(
        "{}: holds bytes (uint8), but the model was trained on floats; compute from them what its training set held, "
        "e.g. array.astype(numpy.float32) / 255 where that was 0 to 1",
        name));
  }
  throw DataError(fmt::format(
      "{}: holds numbers other than bytes, but the model was trained on bytes (uint8), which stand for {:g} · byte + "
      "{:g}; make bytes of what these stand for: numpy.rint((array - {:g}) / {:g}).astype(numpy.uint8), or "
      "array.astype(numpy.uint8) where they are 0 to 255 already",
      name, trained.scale, trained.offset, trained.offset, trained.scale));
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

/// Makes a set of a NumPy array with an example a row, of a folder of arrays with an example each, or of IDX images.
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

/// The first bytes of a file, unpacked where it is gzipped.
std::vector<std::uint8_t> beginning_of(const std::string& path) {
  std::array<char, 8> bytes{};
  const std::size_t count = open_bytes(path)->read(bytes);
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(count)};
}

bool is_idx(const std::vector<std::uint8_t>& beginning) {
  return beginning.size() >= 4 && beginning[0] == 0 && beginning[1] == 0 && beginning[2] == 8 && beginning[3] > 0;
}

[[noreturn]] void refuse(const std::string& path, const std::string& is, const std::string& trained_on) {
  throw DataError(fmt::format("{}: {}, but the model was trained on {}", path, is, trained_on));
}

std::string import_table(const std::string& path, const RawForm& form, const ImportOutput& output) {
  if (form.preprocessing.recipe.images) return write_raw_pictures(path, form.preprocessing, output);
  const std::string stored = "plain arrays of features; use a .npy file, IDX images or an HDF5 file";
  if (std::filesystem::is_directory(path)) {
    if (!form.preprocessing.columns.empty()) refuse(path, "is a folder", "a table with named columns; use a CSV file");
    write_raw_folder(path, form, output);
    return "";
  }
  const auto beginning = beginning_of(path);
  const bool npy = is_npy(beginning), idx = is_idx(beginning);
  if (!form.preprocessing.columns.empty()) {
    if (npy || idx) refuse(path, "has no column names", "a table with named columns; use a CSV file");
    return write_raw_table(path, form.preprocessing, output);
  }
  if (!npy && !idx) {
    if (!form.preprocessing.feature_names.empty()) {
      refuse(path, "is not an array",
             "a set without a preprocessing recipe (imported by an earlier version or written by another program); "
             "import the raw table with 'unisono data import csv' and train on that set");
    }
    refuse(path, "is neither a NumPy array nor IDX images", stored);
  }
  npy ? write_raw_array(path, form, output) : write_raw_idx(path, form, output);
  return "";
}

}  // namespace

std::string import_raw(const std::string& input, const RawForm& form, const ImportOutput& output) {
  switch (form.kind) {
    case SetKind::table:
      return import_table(input, form, output);
    case SetKind::sparse:
      return write_raw_rows(input, form, output);
    case SetKind::tokens:
      return write_raw_text(input, form, output);
    default:
      throw DataError(fmt::format(
          "{}: --input works only for models of tables, sparse rows or tokens, but this one was trained on {}; use "
          "an HDF5 set with --data",
          input, name_of(form.kind)));
  }
}

std::string temporary_set(const std::string& folder) { return unfinished_path(folder + "/.unisono-input"); }

std::string name_temporary_set(std::string message, const std::string& folder, const std::string& name) {
  const std::string path = folder + "/.unisono-input.";
  for (std::size_t at = message.find(path); at != std::string::npos; at = message.find(path, at + name.size())) {
    const std::size_t end = std::min(message.find_first_of(": ", at + path.size()), message.size());
    message.replace(at, end - at, name);
  }
  return message;
}

}  // namespace unisono::data
