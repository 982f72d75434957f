// The reader of tables on any bytes: rows of finite features and known classes, or a DataError or ConfigError that says
// where. The first byte and the length choose options: which column is the label or target, the delimiter, the header,
// the form of numbers, the encoding, dates, one file or two.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "import/csv_columns.hpp"
#include "unisono/base/errors.hpp"

namespace {

using namespace unisono;
using namespace unisono::data;

/// \param size of the input
unisono::data::CsvOptions options_of(std::uint8_t choice, std::size_t size) {
  unisono::data::CsvOptions options;
  const bool odd = size % 2 == 0;  // of the text behind the first byte
  if ((choice & 3) == 1) options.label = "-1";
  if ((choice & 3) == 2) options.target = "1";
  if ((choice & 3) == 3) options.categorical = {"1"};
  if ((choice & 4) != 0) options.form.delimiter = ";";
  if ((choice & 8) != 0) options.form.delimiter = "tab";
  if ((choice & 64) != 0) options.form.decimal = ",";
  if ((choice & 128) != 0) options.form.thousands = options.form.decimal == "," ? "." : ",";
  if ((choice & 16) != 0) options.header = Header::no;
  if ((choice & 32) != 0) options.header = Header::yes;
  options.drop_missing_labels = (choice & 3) == 1 && odd;
  if (odd) options.form.missing_values = {"-", "1"};
  if ((size & 2) != 0) options.form.encoding = Encoding::latin1;
  if ((size & 4) != 0) options.include = {"1"};
  if ((size & 8) != 0) options.weight = "2";
  if ((size & 16) != 0) options.time = "3";
  if ((size & 32) != 0) {
    options.dates = {"4"};
    options.date_order = (size & 64) != 0 ? DateOrder::dmy : DateOrder::ymd;
  }
  return options;
}

/// \param twice whether the table has a second file, which holds the same
void check(const std::string& text, const unisono::data::CsvOptions& options, bool twice) {
  const auto open_bytes = [&] {
    return unisono::data::as_utf8(unisono::data::bytes_of(text, "fuzzed"), options.form.encoding);
  };
  std::vector<unisono::data::OpenBytes> others;
  if (twice) others.emplace_back(open_bytes);
  const unisono::data::OpenText open = [&] {
    return std::make_unique<unisono::data::LineReader>(open_bytes(), others);
  };
  const unisono::data::CsvTable table = unisono::data::scan_table(open, {}, options);
  const std::size_t width = table.feature_names().size();
  unisono::data::CsvRow row;
  const std::int64_t rows = unisono::data::read_rows(
      *open(), unisono::data::csv_rows(table.dialect), [&](const unisono::data::LineReader& line, const auto& fields) {
        unisono::data::encode_row(table, line, fields, row);
        if (row.features.size() != width || !std::isfinite(row.target)) std::abort();
        for (const float value : row.features) {
          if (!std::isfinite(value)) std::abort();
        }
        const unisono::data::CsvColumn* label = table.column_of(unisono::data::ColumnRole::label);
        if (label != nullptr && (row.label < 0 || row.label >= static_cast<std::int64_t>(label->texts.size())))
          std::abort();
      });
  if (rows != table.rows) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    check(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), options_of(data[0], size), (size & 128) != 0);
  } catch (const unisono::DataError& error) {
    if (std::string(error.what()).find("fuzzed") == std::string::npos) std::abort();  // says no place
  } catch (const unisono::ConfigError&) {
  }
  return 0;
}
