#include "vectors/formats.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <bit>
#include <limits>
#include <span>

#include "unisono/base/errors.hpp"
#include "unisono/records/csv_field.hpp"

namespace unisono::apply {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr const char* kBlanks = " \t\n\v\f\r";

void require_none_of(const char* characters, const std::vector<std::string>& names, std::string_view what) {
  for (std::size_t row = 0; row < names.size(); ++row) {
    if (!names[row].empty() && names[row].find_first_of(characters) == std::string::npos) continue;
    throw DataError(fmt::format("the name '{}' (number {}) {}", names[row], row, what));
  }
}

void require_words(const std::vector<std::string>& names) {
  require_none_of(kBlanks, names,
                  "is empty or contains a space, which word2vec's formats use to end a name; use --format npy or csv");
}

/// Each row with its name.
template <typename Visit>
void visit(const NamedVectors& rows, Visit visit) {
  std::vector<float> vector(static_cast<std::size_t>(rows.width));
  for (std::size_t row = 0; row < rows.names.size(); ++row) {
    rows.read(static_cast<Index>(row), vector);
    visit(rows.names[row], View(vector));
  }
}

std::string_view bytes_of(View values) {
  const auto bytes = std::as_bytes(values);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void write_lines(const NamedVectors& rows, char delimiter, NewFile& file) {
  visit(rows, [&](const std::string& name, View vector) {
    std::string line = delimiter == ',' ? records::csv_field(name) : name;
    for (const float value : vector) fmt::format_to(std::back_inserter(line), "{}{}", delimiter, value);
    file.write(line += '\n');
  });
}

static_assert(std::endian::native == std::endian::little);

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint16_t kVersion = 20;  // of the format: 2.0, files that are stored as they are
constexpr std::uint16_t kDay = 0x21;    // 1 January 1980, so that the same model makes the same bytes

/// Little-endian.
template <typename Integer>
void put(std::string& bytes, Integer value) {
  for (std::size_t i = 0; i < sizeof(Integer); ++i) {
    bytes += static_cast<char>((static_cast<std::uint64_t>(value) >> (8 * i)) & 0xFFU);
  }
}

/// What the local header and the directory's have in common: version, flags, method, time, day, CRC, sizes.
void put_common(std::string& bytes, std::uint32_t crc, std::uint32_t size, std::size_t name) {
  for (const std::uint16_t value : {kVersion, std::uint16_t{0}, std::uint16_t{0}, std::uint16_t{0}, kDay}) {
    put(bytes, value);
  }
  for (const std::uint32_t value : {crc, size, size}) put(bytes, value);
  put(bytes, static_cast<std::uint16_t>(name));
  put(bytes, std::uint16_t{0});  // no extra field
}

std::uint32_t crc_of(std::string_view a, std::string_view b) {
  const auto bytes = [](std::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); };
  return static_cast<std::uint32_t>(crc32_z(crc32_z(crc32_z(0, nullptr, 0), bytes(a), a.size()), bytes(b), b.size()));
}

}  // namespace

void write_word2vec_text(const NamedVectors& rows, NewFile& file) {
  require_words(rows.names);
  file.write(fmt::format("{} {}\n", rows.names.size(), rows.width));
  write_lines(rows, ' ', file);
}

void write_word2vec_binary(const NamedVectors& rows, NewFile& file) {
  require_words(rows.names);
  file.write(fmt::format("{} {}\n", rows.names.size(), rows.width));
  visit(rows, [&](const std::string& name, View vector) {
    file.write(name + ' ');
    file.write(bytes_of(vector));
    file.write("\n");
  });
}

void write_npy(const NamedVectors& rows, NewFile& file) {
  file.write(npy_header({static_cast<Index>(rows.names.size()), rows.width}));
  visit(rows, [&](const std::string&, View vector) { file.write(bytes_of(vector)); });
}

void write_csv(const NamedVectors& rows, NewFile& file) {
  std::string head = "name";
  for (Index k = 0; k < rows.width; ++k) head += fmt::format(",x{}", k);
  file.write(head + '\n');
  write_lines(rows, ',', file);
}

void write_names(const std::vector<std::string>& names, NewFile& file) {
  require_none_of("\r\n", names,
                  "is empty or has several lines, but a file of names has one line per name; use --format csv");
  for (const std::string& name : names) file.write(name + '\n');
}

std::string npy_header(const std::vector<Index>& shape) {
  constexpr std::size_t kAlignment = 64, kPrefix = 10;
  std::string header = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                                   fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  header.resize((kPrefix + header.size()) / kAlignment * kAlignment + kAlignment - kPrefix - 1, ' ');
  header += '\n';
  std::string bytes("\x93NUMPY\x01\x00", 8);
  put(bytes, static_cast<std::uint16_t>(header.size()));
  return bytes + header;
}

void NpzWriter::add(const std::string& name, const std::vector<Index>& shape, View values) {
  const std::string file = name + ".npy", header = npy_header(shape);
  const auto bytes = std::as_bytes(values);
  const std::string_view data(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  constexpr std::uint64_t kHeaders = 1024;
  if (written_ + header.size() + data.size() + kHeaders * (entries_.size() + 2) > kMostBytes) {
    throw OutputError(fmt::format("{}: an .npz file holds 4 GiB at most; use --format hdf5", file_.path()));
  }
  const Entry entry{.name = file,
                    .crc = crc_of(header, data),
                    .size = static_cast<std::uint32_t>(header.size() + data.size()),
                    .offset = static_cast<std::uint32_t>(written_)};
  std::string local;
  put(local, std::uint32_t{0x04034b50});
  put_common(local, entry.crc, entry.size, file.size());
  write(local + file + header);
  file_.write(data);
  written_ += data.size();
  entries_.push_back(entry);
}

void NpzWriter::finish() {
  std::string directory;
  for (const Entry& entry : entries_) {
    put(directory, std::uint32_t{0x02014b50});
    put(directory, kVersion);
    put_common(directory, entry.crc, entry.size, entry.name.size());
    for (int i = 0; i < 3; ++i) put(directory, std::uint16_t{0});  // comment, disk, internal attributes
    put(directory, std::uint32_t{0644U << 16U});                   // a file that its owner may write
    put(directory, entry.offset);
    directory += entry.name;
  }
  std::string end;
  put(end, std::uint32_t{0x06054b50});
  for (int i = 0; i < 2; ++i) put(end, std::uint16_t{0});  // disks
  for (int i = 0; i < 2; ++i) put(end, static_cast<std::uint16_t>(entries_.size()));
  put(end, static_cast<std::uint32_t>(directory.size()));
  put(end, static_cast<std::uint32_t>(written_));
  put(end, std::uint16_t{0});  // comment
  write(directory + end);
}

void NpzWriter::write(const std::string& bytes) {
  file_.write(bytes);
  written_ += bytes.size();
}

}  // namespace unisono::apply
