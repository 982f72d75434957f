#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tensors/readers.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"

namespace unisono::data {
namespace {

constexpr std::string_view kNpyEnding = ".npy";

/// NumPy's types of numbers, and the same ones of safetensors.
constexpr std::pair<std::string_view, std::string_view> kTypeNames[] = {
    {"f8", "F64"}, {"f4", "F32"}, {"f2", "F16"}, {"i8", "I64"}, {"i4", "I32"}, {"i2", "I16"},
    {"i1", "I8"},  {"u8", "U64"}, {"u4", "U32"}, {"u2", "U16"}, {"u1", "U8"},  {"b1", "BOOL"}};

std::string type_of_header(const NpyHeader& header) {
  if (header.type == nullptr) return header.described;
  const auto* const found =
      std::ranges::find(kTypeNames, header.type->name, [](const auto& pair) { return pair.first; });
  return std::string(found->second);
}

StoredTensor npz_tensor(const std::string& path, const ArchiveEntry& entry) {
  const auto source = open_entry(path, entry);
  const NpyHeader header = read_npy_header(*source, entry.bytes);
  if (header.described.ends_with('O')) {
    throw DataError(fmt::format(
        "{}: holds Python objects, that is a pickle, which can run any program when it is read; it is never read. Save "
        "arrays of numbers alone: numpy.savez(FILE, **{{name: tensor.numpy() for name, tensor in …}})",
        source->name()));
  }
  return {.file = path,
          .type = type_of_header(header),
          .shape = {header.extent.begin(), header.extent.end()},
          .first_byte = entry.place,
          .format = TensorFormat::npz,
          .name = entry.name.substr(0, entry.name.size() - kNpyEnding.size())};
}

}  // namespace

StoredTensors read_npz_tensors(const std::string& path) {
  StoredTensors tensors;
  for (const ArchiveEntry& entry : list_archive(path)) {
    if (!entry.name.ends_with(kNpyEnding)) continue;
    if (!is_utf8(entry.name))
      throw DataError(fmt::format("{}: the name '{}' is not UTF-8; save it again with numpy.savez", path, entry.name));
    StoredTensor tensor = npz_tensor(path, entry);
    tensor.number = std::ssize(tensors);
    const std::string name = tensor.name;
    tensors.emplace(name, std::move(tensor));
  }
  if (!tensors.empty()) return tensors;
  throw DataError(fmt::format(
      "{}: is a zip file without any array of NumPy's (NAME.npy); save the weights with numpy.savez, or as safetensors",
      path));
}

std::unique_ptr<ArrayReader> open_npz_tensor(const StoredTensor& tensor) {
  const ArchiveEntry entry{.name = tensor.name + std::string(kNpyEnding), .place = tensor.first_byte};
  return std::make_unique<NpyReader>(open_entry(tensor.file, entry), std::nullopt);
}

}  // namespace unisono::data
