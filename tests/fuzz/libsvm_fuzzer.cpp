// The reader of LIBSVM's text on any bytes: rows of ascending indices and finite values below the columns that are
// found, and labels that are classes; or a DataError that says where. The first byte chooses base, task and columns.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "import/libsvm_rows.hpp"
#include "unisono/base/errors.hpp"

namespace {

using namespace unisono;
using namespace unisono::data;

unisono::data::LibsvmOptions options_of(std::uint8_t choice) {
  unisono::data::LibsvmOptions options;
  if ((choice & 1) != 0) options.base = (choice & 2) != 0 ? IndexBase::zero : IndexBase::one;
  if ((choice & 4) != 0) options.task = (choice & 8) != 0 ? Task::classes : Task::regression;
  if ((choice & 16) != 0) options.columns = 10;
  return options;
}

void check(const std::string& text, const unisono::data::LibsvmOptions& options) {
  unisono::data::LibsvmFindings found;
  std::vector<unisono::data::LibsvmRow> rows;
  unisono::data::LineReader lines(unisono::data::bytes_of(text, "fuzzed"));
  unisono::data::read_libsvm(lines, options, found, nullptr,
                             [&](const unisono::data::LibsvmRow& row) { rows.push_back(row); });
  const auto classes = unisono::data::decide_classes(found, options, "fuzzed");
  const std::int64_t base = unisono::data::decide_base(found, options),
                     columns = unisono::data::decide_columns(found, options, "fuzzed");
  if (rows.empty() || columns < 1) std::abort();
  for (const unisono::data::LibsvmRow& row : rows) {
    if (!std::isfinite(static_cast<float>(row.label)) || row.indices.size() != row.values.size()) std::abort();
    if (!classes.empty() && !classes.contains(row.label)) std::abort();
    for (std::size_t i = 0; i < row.indices.size(); ++i) {
      if (row.indices[i] < base || row.indices[i] - base >= columns || !std::isfinite(row.values[i])) std::abort();
      if (i > 0 && row.indices[i] <= row.indices[i - 1]) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  try {
    check(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), options_of(data[0]));
  } catch (const unisono::DataError& error) {
    const std::string message = error.what();
    if (!message.starts_with("fuzzed")) std::abort();  // says no place
  } catch (const unisono::ConfigError&) {              // of many labels, the options must say what they are
  }
  return 0;
}
