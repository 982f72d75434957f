#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <span>
#include <string_view>

#include "import/arrays.hpp"
#include "safetensors/safetensors.hpp"
#include "tensors/readers.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/safetensors.hpp"
#include "unisono/data/tensors.hpp"

namespace unisono::data {
namespace {

namespace fs = std::filesystem;

/// What a file is, by its first bytes; of zip and HDF5 files, by what they hold.
enum class Contents { safetensors, npz, npy, hdf5, torch_archive, pickle, other };

constexpr std::string_view kZip = "PK\x03\x04", kEmptyZip = "PK\x05\x06", kNumpy = "\x93NUMPY";
constexpr std::string_view kFormatsRead =
    "safetensors files (also by an index), .npz files and those of 'unisono export'";

/// The first 16 bytes, or as many as there are; nothing where the file cannot be read.
std::string beginning_of(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";
  try {
    const RawFile file(path, RawFile::Mode::read);
    std::string bytes(std::min<std::uint64_t>(16, file.size()), '\0');
    file.read(0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  } catch (const DataError&) {
    return "";
  }
}

/// A header's length below 4 GiB, and the header.
bool begins_as_safetensors(std::string_view bytes) {
  return bytes.size() > 8 && bytes.substr(4, 4) == std::string_view("\0\0\0\0", 4) && bytes[8] == '{';
}

/// Protocols 2 to 5 of Python's pickle begin with 0x80 and their number; an opcode follows.
bool begins_as_pickle(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5 && bytes[2] != '\0';
}

/// PyTorch writes zip files with a pickle and the tensors' values.
bool is_torch_archive(const std::string& path) {
  try {
    return std::ranges::any_of(list_archive(path), [](const ArchiveEntry& entry) {
      return entry.name.ends_with("/data.pkl") || entry.name == "data.pkl";
    });
  } catch (const DataError&) {
    return false;
  }
}

Contents contents_of(const std::string& path) {
  const std::string bytes = beginning_of(path);
  if (begins_as_safetensors(bytes)) return Contents::safetensors;
  if (bytes.starts_with(kNumpy)) return Contents::npy;
  if (begins_as_pickle(bytes)) return Contents::pickle;
  if (bytes.starts_with(kZip) || bytes.starts_with(kEmptyZip))
    return is_torch_archive(path) ? Contents::torch_archive : Contents::npz;
  try {
    if (!bytes.empty() && is_hdf5_export(path)) return Contents::hdf5;
  } catch (const DataError&) {
  }
  return Contents::other;
}

bool ends_in(const std::string& path, std::initializer_list<std::string_view> endings) {
  return std::ranges::any_of(endings, [&](std::string_view ending) { return path.ends_with(ending); });
}
bool is_called_index(const std::string& path) { return path.ends_with(".safetensors.index.json"); }
/// As PyTorch's users call pickles.
bool is_called_pickle(const std::string& path) { return ends_in(path, {".pt", ".pth", ".bin", ".ckpt", ".pkl"}); }

[[noreturn]] void fail_pickle(const std::string& path, std::string_view what) {
  const fs::path target = fs::path(path).replace_extension(".safetensors").filename();
  throw DataError(fmt::format(
      "{}: {}. A pickle can run any program when it is read, so unisono never reads one. Save the weights as "
      "safetensors, in Python:\n"
      "  import torch, safetensors.torch\n"
      "  safetensors.torch.save_file(torch.load('{}', weights_only=True), '{}')",
      path, what, fs::path(path).filename().string(), target.string()));
}

/// Reads an array from its beginning to the last number that is wanted.
template <typename Take>
void read_array(ArrayReader& array, const StoredTensor& tensor, Index end, const Take& take) {
  constexpr std::uint64_t kAtOnce = 1 << 20;
  if (array.form().extent != std::vector<std::int64_t>(tensor.shape.begin(), tensor.shape.end()))
    throw DataError(fmt::format("{}: was changed while it was read; start again", array.name()));
  const auto rows = static_cast<std::uint64_t>(tensor.shape.empty() ? 1 : tensor.shape.front());
  const std::uint64_t size = static_cast<std::uint64_t>(tensor.size()), row = rows == 0 ? 1 : size / rows;
  const std::uint64_t at_once = std::max<std::uint64_t>(1, kAtOnce / std::max<std::uint64_t>(1, row)) * row;
  std::vector<double> some;
  std::uint64_t at = 0;
  for (; at < static_cast<std::uint64_t>(end); at += some.size()) {
    some.resize(std::min(at_once, size - at));
    array.read(some);
    take(static_cast<Index>(at), some);
  }
  if (at == size) array.finish();
}

void read_numbers(ArrayReader& array, const StoredTensor& tensor, Index first, MutableView values) {
  const Index end = first + std::ssize(values);
  read_array(array, tensor, end, [&](Index at, std::span<const double> some) {
    const Index last = std::min(end, at + std::ssize(some));
    for (Index i = std::max(first, at); i < last; ++i) {
      values[static_cast<std::size_t>(i - first)] = static_cast<float>(some[static_cast<std::size_t>(i - at)]);
    }
  });
}

}  // namespace

Index StoredTensor::size() const {
  Index size = 1;
  for (const Index n : shape) size *= n;
  return size;
}

bool StoredTensor::holds_parameters() const {
  return type == "F64" || type == "F32" || type == "F16" || type == "BF16";
}

bool names_tensor_file(const std::string& path) {
  if (ends_in(path, {".safetensors", ".npz"}) || is_called_index(path)) return true;
  const Contents contents = contents_of(path);
  if (contents != Contents::other) return true;
  return is_called_pickle(path) && !beginning_of(path).starts_with("\x89HDF");
}

StoredTensors read_tensors(const std::string& path) {
  switch (contents_of(path)) {
    case Contents::safetensors:
      return read_safetensors(path);
    case Contents::npz:
      return read_npz_tensors(path);
    case Contents::hdf5:
      return read_hdf5_tensors(path);
    case Contents::torch_archive:
      fail_pickle(path, "is a file of PyTorch, a zip file with a pickle");
    case Contents::pickle:
      fail_pickle(path, "is a pickle of Python's, as PyTorch and others write");
    case Contents::npy:
      throw DataError(
          fmt::format("{}: is a single array without a name; save all arrays with numpy.savez, by name: "
                      "numpy.savez('weights.npz', **{{'conv1.weight': array, …}})",
                      path));
    default:
      break;
  }
  if (is_called_index(path)) return read_safetensors_index(path);
  if (path.ends_with(".npz")) return read_npz_tensors(path);
  if (path.ends_with(".safetensors")) return read_safetensors(path);
  throw DataError(
      fmt::format("{}: is no file of weights; unisono reads {}{}", path, kFormatsRead,
                  is_called_pickle(path) ? ", and no files of PyTorch; save the weights as safetensors" : ""));
}

void read_tensor(const std::string& name, const StoredTensor& tensor, Index first, MutableView values) {
  if (!tensor.holds_parameters()) {
    throw DataError(
        fmt::format("{}: tensor '{}' is of the type {}, but weights must be F32, F16, BF16 or F64; save it as "
                    "one of these",
                    tensor.file, name, tensor.type));
  }
  if (tensor.format == TensorFormat::npz) {
    read_numbers(*open_npz_tensor(tensor), tensor, first, values);
  } else if (tensor.format == TensorFormat::hdf5) {
    read_numbers(*open_hdf5_tensor(tensor), tensor, first, values);
  } else {
    read_plain_tensor(tensor, first, values);
  }
  if (std::ranges::all_of(values, [](float number) { return std::isfinite(number); })) return;
  throw DataError(
      fmt::format("{}: tensor '{}' has numbers that are not finite (NaN, infinite or beyond float32); correct them, "
                  "or name another file",
                  tensor.file, name));
}

}  // namespace unisono::data
