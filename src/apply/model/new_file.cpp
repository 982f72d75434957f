#include "model/new_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/data/safetensors.hpp"

namespace unisono::apply {

namespace {

/// Whether a line is that of word2vec's files: the number of words and that of their numbers.
bool counts_words(std::string_view line) {
  const std::size_t blank = line.find(' ');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return blank != std::string_view::npos && is_number(line.substr(0, blank)) && is_number(line.substr(blank + 1));
}

/// Whether `unisono export` has written a file of tensors; those of other programs are no exports.
bool is_own_safetensors(const std::string& path) {
  std::string bytes(8 + std::string_view(data::kOwnSafetensors).size(), '\0');
  std::ifstream(path, std::ios::binary).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes.ends_with(data::kOwnSafetensors);
}

/// Whether a file may be what `unisono export` has written: arrays, a table of vectors, or their names. A data set, a
/// checkpoint, a config or another table is none.
bool is_export(const std::string& path) {
  if (data::hdf5::is_hdf5(path)) {
    const data::hdf5::File file(path, data::hdf5::File::Mode::read);
    return file.exists("parameters") && !file.exists("header");
  }
  if (path.ends_with(".names.txt") || path.ends_with(".onnx.data") || is_own_safetensors(path)) return true;
  std::string line;
  std::getline(std::ifstream(path, std::ios::binary), line);
  return line.empty() || line.starts_with("\x93NUMPY") || line.starts_with("PK\x03\x04") ||
         line.starts_with("name,x0") || line.starts_with(kOnnxBeginning) || line.ends_with(kTorchModuleMark) ||
         counts_words(line);
}

}  // namespace

NewFile::NewFile(std::string path, Replace replace) : path_(std::move(path)) {
  std::error_code ignored;
  if (std::filesystem::exists(path_, ignored) && replace == Replace::nothing) {
    throw OutputError(fmt::format("{}: already exists; choose another --output, or add --overwrite", path_));
  }
  const auto kind = std::filesystem::symlink_status(path_, ignored).type();
  if (kind != std::filesystem::file_type::not_found && kind != std::filesystem::file_type::regular) {
    throw OutputError(fmt::format("{}: is not a regular file, so it is not replaced; choose another --output", path_));
  }
  if (replace == Replace::exports && kind == std::filesystem::file_type::regular && !is_export(path_)) {
    throw OutputError(
        fmt::format("{}: exists and is not an exported file, so it is not replaced; choose another --output", path_));
  }
  errno = 0;
  file_.open(aside(), std::ios::binary);
  if (!file_) fail();
}

NewFile::~NewFile() {
  std::error_code ignored;
  std::filesystem::remove(aside(), ignored);
}

void NewFile::write(std::string_view bytes) {
  if (!file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()))) fail();
}

void NewFile::finish() {
  file_.close();
  if (!file_) fail();
  sync_and_rename(aside(), path_);
}

void NewFile::fail() const {
  throw OutputError(
      fmt::format("{}: cannot be written: {}; choose another file with --output", path_, std::strerror(errno)));
}

}  // namespace unisono::apply
