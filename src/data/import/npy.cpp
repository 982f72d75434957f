#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <regex>
#include <string_view>

#include "dense/feature_writer.hpp"
#include "import/arrays.hpp"
#include "import/raw_formats.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY", kByte = "u1";

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
void read_numbers(const std::uint8_t* bytes, std::span<double> values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, hdf5::Half>) {
      values[i] = static_cast<double>(to_any_float(value));
    } else {
      values[i] = static_cast<double>(value);
    }
  }
}

constexpr NpyType kTypes[] = {{"b1", 1, read_numbers<std::uint8_t>},  {"f4", 4, read_numbers<float>},
                              {"f8", 8, read_numbers<double>},        {"f2", 2, read_numbers<hdf5::Half>},
                              {kByte, 1, read_numbers<std::uint8_t>}, {"i1", 1, read_numbers<std::int8_t>},
                              {"u2", 2, read_numbers<std::uint16_t>}, {"i2", 2, read_numbers<std::int16_t>},
                              {"u4", 4, read_numbers<std::uint32_t>}, {"i4", 4, read_numbers<std::int32_t>},
                              {"u8", 8, read_numbers<std::uint64_t>}, {"i8", 8, read_numbers<std::int64_t>}};

/// Null: there is none.
const NpyType* type_of(const std::string& text) {
  const auto found = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const NpyType& type) {
    return text.size() == 3 && std::string_view("<>|=").find(text[0]) != std::string_view::npos &&
           text.ends_with(type.name);
  });
  return found == std::end(kTypes) ? nullptr : found;
}

/// Turns the bytes of numbers that were stored with the most significant byte first.
void turn_bytes(std::span<std::uint8_t> bytes, std::size_t size) {
  for (std::size_t at = 0; at + size <= bytes.size(); at += size) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + size));
  }
}

/// The bytes that are asked for. \throws DataError where there are fewer
std::string take_from_header(ByteSource& source, std::size_t count) {
  std::string bytes(count, '\0');
  if (source.read(bytes) != count) fail_npy(source.name(), "ends inside its header");
  return bytes;
}

/// The text of the header. \param front_bytes of all that stands before it
std::string take_header(ByteSource& source, std::size_t& front_bytes) {
  constexpr std::size_t kMostBytes = 4096;  // NumPy needs about 100
  std::string front(kMagic.size(), '\0');
  if (source.read(front) != front.size() || front != kMagic) fail_npy(source.name(), "is not a .npy file");
  const std::string version = take_from_header(source, 2);
  if (version[0] < 1 || version[0] > 3)
    fail_npy(source.name(),
             fmt::format("is written in version {} of the format, but only 1 to 3 are known", int{version[0]}));
  const std::string size_bytes = take_from_header(source, version[0] == 1 ? 2 : 4);
  std::size_t size = 0;
  for (std::size_t i = 0; i < size_bytes.size(); ++i) {
    size |= std::size_t{static_cast<unsigned char>(size_bytes[i])} << (8 * i);
  }
  if (size > kMostBytes) {
    fail_npy(source.name(), fmt::format("has a header of {} bytes, which is not that of an array of numbers", size));
  }
  front_bytes = kMagic.size() + version.size() + size_bytes.size();
  return take_from_header(source, size);
}

/// Notes how many values an array has. \throws DataError where they are not what follows
void measure(NpyHeader& header, const std::string& shape, std::optional<std::uint64_t> file_bytes,
             const std::string& name) {
  const std::optional<std::uint64_t> count = values_in(header.extent);
  header.values = count.value_or(0);
  const bool possible = count && !__builtin_mul_overflow(*count, header.type->size, &header.bytes);
  const std::uint64_t follow = file_bytes ? *file_bytes - std::min(*file_bytes, header.header_bytes) : header.bytes;
  if (possible && follow == header.bytes) return;
  fail_npy(name, fmt::format("its header announces values of {} bytes each in the shape ({}), but {} follow",
                             header.type->size, shape,
                             file_bytes ? count_of(static_cast<std::int64_t>(follow), "byte") : "not as many"));
}

bool is_in_fortran_order(const NpyHeader& header) {
  const auto long_axes = std::ranges::count_if(header.extent, [](std::int64_t n) { return n > 1; });
  return header.first_axis_fastest && long_axes > 1;
}

}  // namespace

NpyHeader read_npy_header(ByteSource& source, std::optional<std::uint64_t> file_bytes) {
  const std::string& name = source.name();
  std::size_t front_bytes = 0;
  const std::string text = take_header(source, front_bytes);
  if (std::regex_search(text, std::regex("['\"]descr['\"]\\s*:\\s*\\[")))
    throw DataError(name + ": holds records of several fields; save each field as an array of its own");
  NpyHeader header;
  header.described = entry(text, "descr", "['\"]([^'\"]{0,40})['\"]", name);
  header.type = type_of(header.described);
  header.most_significant_first = header.described.starts_with('>');
  header.first_axis_fastest = entry(text, "fortran_order", "(True|False)", name) == "True";
  const std::string shape = entry(text, "shape", "\\(([0-9, ]{0,200})\\)", name);
  header.extent = parse_extent(shape, name);
  header.header_bytes = front_bytes + text.size();
  if (header.type != nullptr) measure(header, shape, file_bytes, name);
  return header;
}

bool is_npy(std::span<const std::uint8_t> bytes) {
  return bytes.size() >= kMagic.size() && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0;
}

NpyReader::NpyReader(std::unique_ptr<ByteSource> source, std::optional<std::uint64_t> file_bytes)
    : source_(std::move(source)), header_(read_npy_header(*source_, file_bytes)) {
  if (header_.type == nullptr) {
    fail_npy(source_->name(), fmt::format("holds values of type '{}', but only booleans, integers and floats of up to "
                                          "64 bits are supported; convert them with astype",
                                          header_.described));
  }
  form_.extent = header_.extent;
  form_.bytes = header_.type->name == kByte;
  form_.fits_float = header_.type->size <= 2 || header_.type->name == "f4";
  if (!is_in_fortran_order(header_)) return;
  step_.assign(form_.extent.size(), 1);
  index_.assign(form_.extent.size(), 0);
  for (std::size_t axis = 1; axis < step_.size(); ++axis)
    step_[axis] = step_[axis - 1] * static_cast<std::size_t>(form_.extent[axis - 1]);
}

void NpyReader::take_bytes(std::span<std::uint8_t> bytes) {
  const std::size_t count = source_->read({reinterpret_cast<char*>(bytes.data()), bytes.size()});
  if (count != bytes.size()) fail_npy(name(), "ends before its last value");
  if (header_.most_significant_first) turn_bytes(bytes, header_.type->size);
}

/// Piece by piece, so that an announcement alone takes no memory.
void NpyReader::take_all() {
  constexpr std::uint64_t kAtATime = 16 << 20;
  require_room(name(), static_cast<std::int64_t>(std::min<std::uint64_t>(header_.bytes, INT64_MAX)));
  while (bytes_.size() < header_.bytes) {
    const std::size_t from = bytes_.size();
    bytes_.resize(from + static_cast<std::size_t>(std::min(kAtATime, header_.bytes - from)));
    take_bytes(std::span(bytes_).subspan(from));
  }
}

void NpyReader::gather(std::span<double> values) {
  const std::size_t size = header_.type->size;
  for (double& value : values) {
    header_.type->read(bytes_.data() + at_ * size, {&value, 1});
    for (std::size_t axis = index_.size(); axis-- > 0;) {
      at_ += step_[axis];
      if (++index_[axis] < static_cast<std::size_t>(form_.extent[axis])) break;
      at_ -= step_[axis] * index_[axis];
      index_[axis] = 0;
    }
  }
}

void NpyReader::read(std::span<double> values) {
  if (!step_.empty()) {
    if (bytes_.empty()) take_all();
    return gather(values);
  }
  bytes_.resize(values.size() * header_.type->size);
  take_bytes(bytes_);
  header_.type->read(bytes_.data(), values);
}

void NpyReader::finish() {
  char next = 0;
  if (source_->read({&next, 1}) != 0) fail_npy(name(), "has more bytes than its header announces");
}

std::unique_ptr<ArrayReader> open_npy(const std::string& path) {
  auto source = open_bytes(path);
  return std::make_unique<NpyReader>(std::move(source), plain_size(path));
}

NpyArray parse_npy(std::span<const std::uint8_t> bytes, const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  NpyReader reader(bytes_of(text, name), bytes.size());
  NpyArray array{.extent = reader.form().extent, .bytes = reader.form().bytes};
  const std::size_t count = static_cast<std::size_t>(*values_in(array.extent));
  constexpr std::size_t kAtATime = 1 << 16;
  std::vector<double> values;
  (array.bytes ? array.values_of_bytes.reserve(count) : array.values.reserve(count));
  for (std::size_t at = 0; at < count; at += values.size()) {
    values.resize(std::min(kAtATime, count - at));
    reader.read(values);
    for (const double value : values) {
      array.bytes ? array.values_of_bytes.push_back(static_cast<std::uint8_t>(value))
                  : array.values.push_back(static_cast<float>(value));
    }
  }
  return array;
}

}  // namespace unisono::data
