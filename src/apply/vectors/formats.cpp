#include "vectors/formats.hpp"

#include <fmt/format.h>

#include <bit>
#include <span>

#include "unisono/base/errors.hpp"
#include "unisono/records/csv_field.hpp"
#include "vectors/npz.hpp"

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
void visit(const NamedRows& rows, Visit visit) {
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

void write_lines(const NamedRows& rows, char delimiter, NewFile& file) {
  visit(rows, [&](const std::string& name, View vector) {
    std::string line = delimiter == ',' ? records::csv_field(name) : name;
    for (const float value : vector) fmt::format_to(std::back_inserter(line), "{}{}", delimiter, value);
    file.write(line += '\n');
  });
}

}  // namespace

void write_word2vec_text(const NamedRows& rows, NewFile& file) {
  require_words(rows.names);
  file.write(fmt::format("{} {}\n", rows.names.size(), rows.width));
  write_lines(rows, ' ', file);
}

void write_word2vec_binary(const NamedRows& rows, NewFile& file) {
  require_words(rows.names);
  file.write(fmt::format("{} {}\n", rows.names.size(), rows.width));
  visit(rows, [&](const std::string& name, View vector) {
    file.write(name + ' ');
    file.write(bytes_of(vector));
    file.write("\n");
  });
}

void write_npy(const NamedRows& rows, NewFile& file) {
  file.write(npy_header({static_cast<Index>(rows.names.size()), rows.width}));
  visit(rows, [&](const std::string&, View vector) { file.write(bytes_of(vector)); });
}

void write_csv(const NamedRows& rows, NewFile& file) {
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

}  // namespace unisono::apply
