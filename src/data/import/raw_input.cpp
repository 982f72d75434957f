#include "unisono/data/raw_input.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "import/abandoned.hpp"
#include "import/bytes.hpp"
#include "import/libsvm_raw.hpp"
#include "import/npy.hpp"
#include "import/raw_arrays.hpp"
#include "import/raw_table.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

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

}  // namespace unisono::data

namespace unisono::data {

std::string import_raw(const std::string& input, const RawForm& form, const ImportOutput& output) {
  switch (form.kind) {
    case SetKind::table:
      return import_table(input, form, output);
    case SetKind::sparse:
      return write_raw_rows(input, form, output);
    default:
      throw DataError(
          fmt::format("{}: --input works only for models of tables or sparse rows, but this one was trained on {}; use "
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
