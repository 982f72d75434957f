#include "import/spill.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "support.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono::data;
using unisono::test::TempDir;

TEST_CASE("what is set aside is read back, and no file is seen", "[spill]") {
  const TempDir folder;
  unisono::data::SpillFile file(folder / "a.h5");
  CHECK(std::filesystem::is_empty(folder.path()));
  std::vector<std::uint32_t> values(700000);  // more than is buffered
  std::iota(values.begin(), values.end(), 0U);
  file.append(std::span<const std::uint32_t>(values).first(300000));
  file.append(std::span<const std::uint32_t>(values).subspan(300000));
  CHECK(file.bytes() == 4 * 700000);

  unisono::data::SpillReader one_by_one(file);
  std::vector<std::uint32_t> read;
  for (std::uint32_t value = 0; one_by_one.next(value);) read.push_back(value);
  CHECK(read == values);

  unisono::data::SpillReader at_once(file);
  std::fill(read.begin(), read.end(), 0);
  at_once.take(std::span(read));
  CHECK(read == values);
  std::uint32_t none = 0;
  CHECK_FALSE(at_once.next(none));

  unisono::data::SpillReader part(file, 4 * 10, 4 * 20, 12);
  for (std::uint32_t expected = 10; expected < 20; ++expected) {
    CHECK(part.next(none));
    CHECK(none == expected);
  }
  CHECK_FALSE(part.next(none));
}

TEST_CASE("values of different sizes follow each other", "[spill]") {
  const TempDir folder;
  unisono::data::SpillFile file(folder / "a.h5");
  for (int i = 0; i < 100000; ++i) {
    file.append(std::uint8_t{7});
    file.append(double{i + 0.5});
  }
  unisono::data::SpillReader reader(file);
  bool right = true;
  for (int i = 0; i < 100000; ++i) {
    std::uint8_t byte = 0;
    double number = 0;
    right = right && reader.next(byte) && reader.next(number) && byte == 7 && number == i + 0.5;
  }
  CHECK(right);
}

TEST_CASE("a folder that is not there is named", "[spill]") {
  CHECK_THAT(unisono::test::message_of<unisono::OutputError>([] { unisono::data::SpillFile("/none/a.h5"); }),
             Catch::Contains("/none/a.h5: a temporary file in its folder cannot be created: No such file"));
}
