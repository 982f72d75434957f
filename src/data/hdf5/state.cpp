#include "hdf5/state.hpp"

#include <fmt/format.h>

#include <vector>

#include "hdf5/heap.hpp"
#include "hdf5/types.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data::hdf5 {
namespace {

/// A type conversion, for the library, that changes nothing.
herr_t keep_bytes(hid_t from, hid_t to, H5T_cdata_t* state, std::size_t, std::size_t, std::size_t, void*, void*,
                  hid_t) {
  if (state->command != H5T_CONV_INIT) return 0;
  state->need_bkg = H5T_BKG_NO;
  return H5Tget_size(from) == HeapReference::kBytes && H5Tget_size(to) == HeapReference::kBytes ? 0 : -1;
}

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

Handle reference_type() {
  Handle type{H5Tcreate(H5T_OPAQUE, HeapReference::kBytes), H5Tclose};
  // Registered once per process: conversions belong to the library, not to a file.
  static const herr_t registered =
      H5Tregister(H5T_PERS_SOFT, "stored reference", text_type().get(), type.get(), keep_bytes);
  static_cast<void>(registered);  // if this fails, the next read fails, too
  return type;
}

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
