// The reader of ratings on any bytes: lines of a user and an item that are words of UTF-8, and finite numbers; or a
// DataError that says where. The first byte and the length choose delimiter, header, columns, form of numbers and
// encoding.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "import/rating_line.hpp"
#include "import/rows.hpp"
#include "unisono/base/errors.hpp"

namespace {

using namespace unisono;
using namespace unisono::data;

void check(const std::string& text, std::uint8_t choice) {
  const Encoding encoding = text.size() % 2 == 0 ? Encoding::utf8 : Encoding::latin1;
  constexpr const char* delimiters[] = {"auto", "auto", "tab", "::", ",", " ", ";", "x"};
  constexpr Header headers[] = {Header::automatic, Header::automatic, Header::yes, Header::no};
  const auto open = [&] {
    return std::make_unique<unisono::data::LineReader>(
        unisono::data::as_utf8(unisono::data::bytes_of(text, "fuzzed"), encoding));
  };
  constexpr const char* columns[] = {"", "", "user=2,item=1,rating=3", "user=user,item=3,rating=4,time=1"};
  RatingsOptions options;
  options.form.delimiter = delimiters[choice & 7];
  options.header = headers[choice >> 3 & 3];
  options.columns = columns[choice >> 5 & 3];
  if ((choice & 128) != 0) options.form.decimal = ",";
  if (text.size() % 3 == 0) options.form.thousands = options.form.decimal == "," ? "." : ",";
  options.form.encoding = encoding;
  const unisono::data::RatingsDialect dialect = unisono::data::detect_ratings(open, options);
  if (dialect.fields != 3 && dialect.fields != 4) std::abort();
  const auto lines = open();
  std::string line;
  RatingFields fields;
  if (dialect.header) lines->next(line);
  while (lines->next(line)) {
    const unisono::data::Rating rating = unisono::data::parse_rating(*lines, line, dialect, fields);
    if (!std::isfinite(rating.value) || !std::isfinite(rating.time)) std::abort();
    for (const std::string_view id : {rating.user, rating.item}) {
      const bool in_line = id.data() >= line.data() && id.data() + id.size() <= line.data() + line.size();
      if (id.empty() || (!in_line && fields.unquoted.empty())) std::abort();
      if (unisono::data::find_invalid_utf8(id) != std::string_view::npos) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    check(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), data[0]);
  } catch (const unisono::DataError& error) {
    if (!std::string(error.what()).starts_with("fuzzed")) std::abort();  // says no place
  } catch (const unisono::ConfigError&) {                                // columns that are not there
  }
  return 0;
}
