#include <catch2/catch.hpp>
#include <numeric>

#include "import/set_writer.hpp"
#include "support.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono::data;
using unisono::test::TempDir;

TEST_CASE("columns are written and read in pieces, packed or not", "[import]") {
  const TempDir folder;
  const int compression = GENERATE(0, 1);
  std::vector<std::uint32_t> values(300000);  // more than are written, and than are read, at a time
  std::iota(values.begin(), values.end(), 0U);
  unisono::data::SetWriter writer({.path = folder / "a.h5", .compression = compression});
  unisono::data::ColumnWriter<std::uint32_t> column(writer, "group/column", values.size());
  unisono::data::ColumnWriter<float> none(writer, "none", 0);
  column.add(7);
  column.add(std::span<const std::uint32_t>(values).subspan(1));
  column.finish();
  none.finish();
  writer.finish();

  const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
  CHECK(file.shape("group/column").compressed == (compression > 0));
  unisono::data::ColumnReader<std::uint32_t> reader(file, "group/column");
  CHECK(reader.size() == values.size());
  values[0] = 7;
  std::vector<std::uint32_t> read;
  for (std::uint32_t value = 0; reader.next(value);) read.push_back(value);
  CHECK(read == values);
  std::uint32_t value = 0;
  CHECK_FALSE(reader.next(value));
  unisono::data::ColumnReader<float> nothing(file, "none");
  float number = 0;
  CHECK_FALSE(nothing.next(number));
}
