#include "import/raw_formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>
#include <regex>
#include <string_view>

#include "dense/feature_writer.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

[[noreturn]] void fail_npy(const std::string& name, const std::string& what) {
  throw DataError(fmt::format("{}: {}; save it again with numpy.save", name, what));
}

/// What stands behind a key of the header's dictionary.
std::string entry(const std::string& header, const std::string& key, const std::string& pattern,
                  const std::string& name) {
  std::smatch match;
  if (!std::regex_search(header, match, std::regex("['\"]" + key + "['\"]\\s*:\\s*" + pattern))) {
    fail_npy(name, fmt::format("its header has no valid '{}': {}", key, header));
  }
  return match[1];
}

std::vector<std::int64_t> parse_extent(const std::string& text, const std::string& name) {
  std::vector<std::int64_t> extent;
  const std::regex number("\\d+");
  for (std::sregex_iterator i(text.begin(), text.end(), number), end; i != end; ++i) {
    const std::string digits = i->str();
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), extent.emplace_back());
    if (error != std::errc()) fail_npy(name, fmt::format("its header has the impossible shape ({})", text));
  }
  return extent;
}

/// How many values an array has; nothing where 64 bits do not suffice for the number.
std::optional<std::uint64_t> values_in(const std::vector<std::int64_t>& extent) {
  std::uint64_t count = 1;
  for (const std::int64_t n : extent) {
    if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(n), &count)) return std::nullopt;
  }
  return count;
}

template <typename T>
void read_floats(std::span<const std::uint8_t> bytes, std::vector<float>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, hdf5::Half>) {
      values[i] = to_any_float(value);
    } else {
      values[i] = static_cast<float>(value);
    }
  }
}

using ReadFloats = void (*)(std::span<const std::uint8_t>, std::vector<float>&);

struct NumberType {
  std::string_view name;  ///< kind and size, as NumPy writes them
  std::size_t size;
  ReadFloats read;
};

constexpr NumberType kTypes[] = {{"b1", 1, read_floats<std::uint8_t>},
                                 {"f4", 4, read_floats<float>},
                                 {"f8", 8, read_floats<double>},
                                 {"f2", 2, read_floats<hdf5::Half>},
                                 {"u1", 1, nullptr},
                                 {"i1", 1, read_floats<std::int8_t>},
                                 {"u2", 2, read_floats<std::uint16_t>},
                                 {"i2", 2, read_floats<std::int16_t>},
                                 {"u4", 4, read_floats<std::uint32_t>},
                                 {"i4", 4, read_floats<std::int32_t>},
                                 {"u8", 8, read_floats<std::uint64_t>},
                                 {"i8", 8, read_floats<std::int64_t>}};

const NumberType& type_of(const std::string& text, const std::string& name) {
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const NumberType& type) {
    return text.size() == 3 && text.ends_with(type.name);
  });
  if (found == std::end(kTypes)) {
    fail_npy(name, fmt::format("holds values of type '{}', but only integers and floats are supported", text));
  }
  return *found;
}

/// Bytes of numbers that were stored with the most significant byte first.
std::vector<std::uint8_t> in_other_order(std::span<const std::uint8_t> bytes, std::size_t size) {
  std::vector<std::uint8_t> turned(bytes.begin(), bytes.end());
  for (std::size_t at = 0; at + size <= turned.size(); at += size)
    std::reverse(turned.begin() + static_cast<std::ptrdiff_t>(at),
                 turned.begin() + static_cast<std::ptrdiff_t>(at + size));
  return turned;
}

/// Values whose first axis runs fastest (Fortran's order), with the last one fastest.
template <typename T>
void make_last_axis_fastest(std::vector<T>& values, const std::vector<std::int64_t>& extent) {
  std::vector<std::size_t> step(extent.size(), 1), index(extent.size(), 0);
  for (std::size_t axis = 1; axis < extent.size(); ++axis)
    step[axis] = step[axis - 1] * static_cast<std::size_t>(extent[axis - 1]);
  std::vector<T> ordered;
  ordered.reserve(values.size());
  for (std::size_t at = 0; ordered.size() < values.size();) {
    ordered.push_back(values[at]);
    for (std::size_t axis = extent.size(); axis-- > 0;) {
      at += step[axis];
      if (++index[axis] < static_cast<std::size_t>(extent[axis])) break;
      at -= step[axis] * index[axis];
      index[axis] = 0;
    }
  }
  values = std::move(ordered);
}

/// The header's text; `bytes` begins at the values afterwards.
std::string take_header(std::span<const std::uint8_t>& bytes, const std::string& name) {
  constexpr std::size_t kVersion = 6;
  if (bytes.size() < kVersion + 4) fail_npy(name, "ends inside its header");
  const std::size_t size_bytes = bytes[kVersion] == 1 ? 2 : 4, begin = kVersion + 2 + size_bytes;
  std::size_t size = 0;
  for (std::size_t i = 0; i < size_bytes && kVersion + 2 + i < bytes.size(); ++i) {
    size |= std::size_t{bytes[kVersion + 2 + i]} << (8 * i);
  }
  if (begin > bytes.size() || size > bytes.size() - begin || size > (1 << 16)) fail_npy(name, "ends inside its header");
  const std::string header(reinterpret_cast<const char*>(bytes.data()) + begin, size);
  bytes = bytes.subspan(begin + size);
  return header;
}

}  // namespace

bool is_npy(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

NpyArray parse_npy(std::span<const std::uint8_t> bytes, const std::string& name) {
  if (!is_npy(bytes)) fail_npy(name, "is not a .npy file");
  const std::string header = take_header(bytes, name);
  const std::string described = entry(header, "descr", "['\"]([^'\"]*)['\"]", name);
  const NumberType& type = type_of(described, name);
  const bool first_axis_fastest = entry(header, "fortran_order", "(True|False)", name) == "True";
  NpyArray array;
  const std::string shape = entry(header, "shape", "\\(([0-9, ]{0,200})\\)", name);
  array.extent = parse_extent(shape, name);
  const std::optional<std::uint64_t> count = values_in(array.extent);
  if (!count || *count > bytes.size() || bytes.size() != *count * type.size) {
    fail_npy(name, fmt::format("its header announces values of {} bytes each in the shape ({}), but {} bytes follow",
                               type.size, shape, bytes.size()));
  }
  if (type.read == nullptr) {
    array.bytes = true;
    array.values_of_bytes.assign(bytes.begin(), bytes.end());
  } else {
    array.values.resize(*count);
    described.starts_with('>') ? type.read(in_other_order(bytes, type.size), array.values)
                               : type.read(bytes, array.values);
  }
  if (first_axis_fastest) {
    make_last_axis_fastest(array.values, array.extent);
    make_last_axis_fastest(array.values_of_bytes, array.extent);
  }
  return array;
}

}  // namespace unisono::data
