#include "hdf5/texts.hpp"

#include <fmt/format.h>

#include <vector>

#include "hdf5/heap.hpp"
#include "hdf5/references.hpp"
#include "hdf5/state.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data::hdf5 {
namespace {

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

std::vector<std::string> File::State::read_texts(const Texts& texts) const {
  const bool variable = H5Tis_variable_str(texts.stored) > 0;
  const std::size_t length = variable ? HeapReference::kBytes : H5Tget_size(texts.stored);
  const RawFile bytes_of_file = raw();
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
  const Handle creation{H5Fget_create_plist(file.get()), H5Pclose};
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

}  // namespace unisono::data::hdf5
