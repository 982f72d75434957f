#include "safetensors/safetensors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "dense/feature_writer.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/nesting.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/data/safetensors.hpp"

namespace unisono::data {
namespace {

static_assert(std::endian::native == std::endian::little);

using nlohmann::json;

constexpr std::uint64_t kLengthBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // as in the format's own library
constexpr std::string_view kMetadata = "__metadata__";

[[noreturn]] void fail_tensors(const std::string& path, const std::string& what) {
  throw DataError(
      fmt::format("{}: is no whole safetensors file: {}; copy or save it once more, or name another file", path, what));
}

/// A type of numbers.
struct TensorType {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr TensorType kTensorTypes[] = {{"F64", 8},     {"F32", 4},     {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1},
                                       {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"I64", 8}, {"I32", 4},  {"I16", 2},
                                       {"I8", 1},      {"U64", 8},     {"U32", 4}, {"U16", 2},  {"U8", 1},
                                       {"BOOL", 1},    {"C64", 8}};

std::uint64_t type_bytes(const std::string& type) {
  const auto found = std::ranges::find(kTensorTypes, type, &TensorType::name);
  return found == std::end(kTensorTypes) ? 0 : found->bytes;
}

/// Parses an object, which must name none of its members twice. \param what the object is, for messages
json parse_object(const std::string& text, const std::string& path, const std::string& what) {
  std::vector<std::set<std::string>> open;  // the names so far of the objects that are being read
  const auto note_names = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && !open.back().insert(parsed.get<std::string>()).second) {
      fail_tensors(path, fmt::format("{} has two entries '{}'", what, parsed.get<std::string>()));
    }
    return true;
  };
  try {
    json object = json::parse(shallow_json(text, path), note_names);
    if (object.is_object()) return object;
    fail_tensors(path, what + " is no JSON object");
  } catch (const json::exception& error) {
    fail_tensors(path, fmt::format("{} is no JSON ({})", what, error.what()));
  }
}

/// The header's text.
std::string header_text(const RawFile& file, const std::string& path) {
  const std::uint64_t size = file.size();
  std::uint64_t length = 0;
  if (size < kLengthBytes) fail_tensors(path, fmt::format("it has {} bytes, but a header needs more than 8", size));
  file.read(0, std::as_writable_bytes(std::span(&length, 1)));
  if (length > size - kLengthBytes) {
    fail_tensors(path, fmt::format("its header should have {} bytes, but the file has {}", length, size));
  }
  if (length > kMostHeaderBytes) {
    fail_tensors(path, fmt::format("its header has {} bytes, but headers have {} at most", length, kMostHeaderBytes));
  }
  std::string text(length, '\0');
  file.read(kLengthBytes, std::as_writable_bytes(std::span(text)));
  return text;
}

/// A tensor's bytes, counted from the first one behind the header.
struct Extent {
  std::uint64_t begin = 0, end = 0;
  std::string name;
};

/// Reads the entries of one file's header.
class TensorHeader {
 public:
  TensorHeader(std::string path, std::uint64_t header_bytes, std::uint64_t data_bytes)
      : path_(std::move(path)), first_(kLengthBytes + header_bytes), data_bytes_(data_bytes) {}

  StoredTensors read(const json& header) {
    StoredTensors tensors;
    for (const auto& [name, entry] : header.items()) {
      if (name != kMetadata) tensors.emplace(name, tensor_of(name, entry));
    }
    require_filled();
    for (std::size_t i = 0; i < extents_.size(); ++i) tensors.at(extents_[i].name).number = static_cast<Index>(i);
    return tensors;
  }

 private:
  [[noreturn]] void fail_at(const std::string& name, const std::string& what) const {
    fail_tensors(path_, fmt::format("tensor '{}' {}", name, what));
  }

  /// A list of whole numbers from 0 to 2⁶³ − 1.
  std::vector<Index> numbers_of(const std::string& name, const json& entry, const char* key) const {
    const auto list = entry.find(key);
    if (list == entry.end() || !list->is_array()) fail_at(name, fmt::format("has no list '{}'", key));
    std::vector<Index> numbers;
    for (const json& number : *list) {
      const bool fits = number.is_number_unsigned() &&
                        number.get<std::uint64_t>() <= std::uint64_t{std::numeric_limits<std::int64_t>::max()};
      if (!fits)
        fail_at(name, fmt::format("has {} in '{}', where whole numbers from 0 on must be", number.dump(), key));
      numbers.push_back(number.get<Index>());
    }
    return numbers;
  }

  std::string type_of(const std::string& name, const json& entry) const {
    const auto type = entry.find("dtype");
    if (type == entry.end() || !type->is_string()) fail_at(name, "has no 'dtype'");
    if (type_bytes(type->get<std::string>()) > 0) return type->get<std::string>();
    fail_at(name, fmt::format("is of the type {}, which is not known", type->dump()));
  }

  std::uint64_t length_of(const std::string& name, const StoredTensor& tensor) const {
    std::uint64_t bytes = type_bytes(tensor.type);
    for (const Index n : tensor.shape) {
      if (!__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes)) continue;
      fail_at(name, fmt::format("has the impossible shape [{}]", fmt::join(tensor.shape, ", ")));
    }
    return bytes;
  }

  StoredTensor tensor_of(const std::string& name, const json& entry) {
    if (!entry.is_object()) fail_at(name, "is described by no JSON object");
    StoredTensor tensor{
        .file = path_, .type = type_of(name, entry), .shape = numbers_of(name, entry, "shape"), .name = name};
    const std::vector<Index> offsets = numbers_of(name, entry, "data_offsets");
    if (offsets.size() != 2) fail_at(name, fmt::format("has {} 'data_offsets' in place of 2", offsets.size()));
    const Extent extent{static_cast<std::uint64_t>(offsets[0]), static_cast<std::uint64_t>(offsets[1]), name};
    if (extent.begin > extent.end)
      fail_at(name, fmt::format("ends at {} before it begins at {}", extent.end, extent.begin));
    if (extent.end > data_bytes_) {
      fail_at(name, fmt::format("should end at byte {} of the data, of which there are {}", extent.end, data_bytes_));
    }
    if (const std::uint64_t bytes = length_of(name, tensor); bytes != extent.end - extent.begin) {
      fail_at(name, fmt::format("takes {} bytes, but {} × [{}] are {}", extent.end - extent.begin, tensor.type,
                                fmt::join(tensor.shape, ", "), bytes));
    }
    tensor.first_byte = first_ + extent.begin;
    extents_.push_back(extent);
    return tensor;
  }

  /// Checks that each byte behind the header belongs to exactly one tensor.
  void require_filled() {
    std::ranges::sort(extents_, {}, [](const Extent& extent) { return std::pair(extent.begin, extent.end); });
    std::uint64_t end = 0;
    for (const Extent& extent : extents_) {
      if (extent.begin < end) fail_at(extent.name, fmt::format("begins at {} within another one", extent.begin));
      if (extent.begin > end)
        fail_at(extent.name, fmt::format("begins at {}, but nothing is at {}", extent.begin, end));
      end = extent.end;
    }
    if (end != data_bytes_) fail_tensors(path_, fmt::format("its tensors end at byte {} of {}", end, data_bytes_));
  }

  std::string path_;
  std::uint64_t first_;       ///< of the data, from the start of the file
  std::uint64_t data_bytes_;  ///< behind the header
  std::vector<Extent> extents_;
};

// Values --------------------------------------------------------------------------------------------------------------

/// The upper half of a float32.
struct BrainFloat {
  std::uint16_t bits;
};

float single(float value) { return value; }
float single(hdf5::Half value) { return to_any_float(value); }
float single(BrainFloat value) { return std::bit_cast<float>(std::uint32_t{value.bits} << 16U); }
float single(double value) { return static_cast<float>(value); }

/// Reads numbers of type T, some MiB at a time.
template <typename T>
void read_as(const StoredTensor& tensor, Index begin, MutableView values) {
  constexpr std::size_t kAtOnce = 1 << 20;
  const RawFile file(tensor.file, RawFile::Mode::read);
  std::vector<T> stored(std::min(kAtOnce, values.size()));
  for (std::size_t first = 0; first < values.size(); first += kAtOnce) {
    const std::span<T> some = std::span(stored).first(std::min(kAtOnce, values.size() - first));
    file.read(tensor.first_byte + (static_cast<std::size_t>(begin) + first) * sizeof(T), std::as_writable_bytes(some));
    const MutableView numbers = values.subspan(first, some.size());
    std::ranges::transform(some, numbers.begin(), [](T value) { return single(value); });
  }
}

}  // namespace

StoredTensors read_safetensors(const std::string& path) {
  const RawFile file(path, RawFile::Mode::read);
  const std::string text = header_text(file, path);
  TensorHeader reader(path, text.size(), file.size() - kLengthBytes - text.size());
  return reader.read(parse_object(text, path, "its header"));
}

namespace {

/// The tensors of the files follow each other in the order of the files' names.
void number_by_file(StoredTensors& tensors) {
  std::vector<StoredTensor*> all;
  for (auto& [name, tensor] : tensors) all.push_back(&tensor);
  std::ranges::sort(all, {}, [](const StoredTensor* tensor) { return std::pair(tensor->file, tensor->number); });
  for (std::size_t i = 0; i < all.size(); ++i) all[i]->number = static_cast<Index>(i);
}

/// The names of tensors and of the files that they are in.
std::map<std::string, std::string> read_weight_map(const std::string& path) {
  const RawFile file(path, RawFile::Mode::read);
  if (file.size() > kMostHeaderBytes) {
    throw DataError(fmt::format("{}: has {} bytes, but an index has {} at most", path, file.size(), kMostHeaderBytes));
  }
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  const json index = parse_object(text, path, "the index");
  const auto map = index.find("weight_map");
  if (map == index.end() || !map->is_object()) fail_tensors(path, "the index has no object 'weight_map'");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, part] : map->items()) {
    const std::string name = part.is_string() ? part.get<std::string>() : "";
    const bool is_plain = !name.empty() && name.find('/') == std::string::npos && name != "." && name != "..";
    if (!is_plain) fail_tensors(path, fmt::format("{} is no name of a file in its folder", part.dump()));
    files.emplace(tensor, name);
  }
  return files;
}

}  // namespace

StoredTensors read_safetensors_index(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::map<std::string, StoredTensors> files;
  StoredTensors tensors;
  for (const auto& [name, part] : read_weight_map(path)) {
    const std::string file = (folder / part).string();
    if (!files.contains(part)) files.emplace(part, read_safetensors(file));
    const auto found = files.at(part).find(name);
    if (found == files.at(part).end()) fail_tensors(path, fmt::format("{} has no tensor '{}'", file, name));
    tensors.emplace(name, found->second);
  }
  number_by_file(tensors);
  return tensors;
}

void read_plain_tensor(const StoredTensor& tensor, Index first, MutableView values) {
  if (tensor.type == "F32") return read_as<float>(tensor, first, values);
  if (tensor.type == "F16") return read_as<hdf5::Half>(tensor, first, values);
  if (tensor.type == "BF16") return read_as<BrainFloat>(tensor, first, values);
  read_as<double>(tensor, first, values);
}

std::string safetensors_header(const std::vector<NamedShape>& tensors) {
  std::string text = kOwnSafetensors;
  std::uint64_t end = 0;
  for (const NamedShape& tensor : tensors) {
    const std::uint64_t begin = end;
    std::uint64_t numbers = 1;
    for (const Index n : tensor.shape) numbers *= static_cast<std::uint64_t>(n);
    end += numbers * sizeof(float);
    text += fmt::format(R"(,{}:{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", json(tensor.name).dump(),
                        fmt::join(tensor.shape, ","), begin, end);
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data begin at a multiple of 8
  std::string bytes(kLengthBytes, '\0');
  const std::uint64_t length = text.size();
  std::memcpy(bytes.data(), &length, kLengthBytes);
  return bytes + text;
}

}  // namespace unisono::data
