#include <catch2/catch.hpp>

#include "import/array_rows.hpp"
#include "support.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono::data;
using unisono::DataError;

namespace {

/// A .npy file of version 1. \param values their bytes
std::string npy_file(const std::string& type, const std::string& order, const std::string& shape,
                     const std::string& values) {
  const std::string header = "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': (" + shape + "), }\n";
  return "\x93NUMPY" + std::string{'\1', '\0', static_cast<char>(header.size()), '\0'} + header + values;
}

OpenArray open_npy_file(const std::string& file, const std::string& name = "x.npy") {
  return [file, name] { return std::make_unique<NpyReader>(bytes_of(file, name), file.size()); };
}

std::vector<std::vector<double>> rows_of_arrays(const std::vector<OpenArray>& arrays) {
  const ArrayRows rows(arrays);
  std::vector<std::vector<double>> read;
  for (RowCursor cursor(rows); cursor.next();) read.emplace_back(cursor.row().begin(), cursor.row().end());
  return read;
}

}  // namespace

TEST_CASE("rows of arrays of both orders follow each other", "[import]") {
  const OpenArray c = open_npy_file(npy_file("|i1", "False", "2, 3", {1, 2, 3, -4, 5, 6}));
  const OpenArray fortran = open_npy_file(npy_file("|u1", "True", "2, 3", {1, 4, 2, 5, 3, 6}));
  const OpenArray big = open_npy_file(npy_file(">u2", "False", "1, 3", {1, 0, 0, 2, 0, 3}));
  using Rows = std::vector<std::vector<double>>;
  CHECK(rows_of_arrays({c, fortran, big}) == Rows{{1, 2, 3}, {-4, 5, 6}, {1, 2, 3}, {4, 5, 6}, {256, 2, 3}});
  CHECK(ArrayRows({fortran}).bytes());
  CHECK_FALSE(ArrayRows({c, fortran}).bytes());
  CHECK(rows_of_arrays({open_npy_file(npy_file("|b1", "True", "3,", {0, 1, 1}))}) == Rows{{0}, {1}, {1}});
}

TEST_CASE("arrays with rows of other shapes do not follow each other", "[import]") {
  const OpenArray two = open_npy_file(npy_file("|i1", "False", "1, 2", {1, 2})),
                  one = open_npy_file(npy_file("|i1", "False", "1", {1}), "y");
  CHECK_THROWS_WITH(ArrayRows({two, one}),
                    "y: has rows of the shape (), but those of x.npy have (2); arrays that follow each other must "
                    "have rows of the same shape");
  CHECK_THROWS_WITH(ArrayRows({open_npy_file(npy_file("|i1", "False", "0, 2", ""))}),
                    "x.npy: has no values: its shape is (0, 2)");
  CHECK_THROWS_WITH(ArrayRows({open_npy_file(npy_file("|i1", "False", "", "a"))}),
                    Catch::Contains("is a single number"));
}

TEST_CASE("bytes and other numbers are not one kind of features", "[import]") {
  const OpenArray bytes = open_npy_file(npy_file("|u1", "False", "1,", "a"), "b"),
                  others = open_npy_file(npy_file("|i1", "False", "1,", "a"), "i");
  CHECK_NOTHROW(ArrayRows({bytes, bytes}).require_alike(ArrayRows({bytes})));
  CHECK_NOTHROW(ArrayRows({others}).require_alike(ArrayRows({others})));
  const ArrayRows both({bytes, others});
  CHECK_THROWS_WITH(both.require_alike(both),
                    "i: holds other numbers than bytes (uint8), but b holds them; store both as the same type");
  CHECK_THROWS_WITH(both.require_alike(ArrayRows({others})),
                    "b: holds bytes (uint8), but i does not; store both as the same type");
}

TEST_CASE("rows too large for an example are refused, however many values they claim", "[import]") {
  for (const char* shape : {"1, 67108865", "1, 67108864, 2", "1, 67108864, 67108864"})  // 67108864 is 2²⁶
    CHECK_THROWS_AS(ArrayRows({[&] {
                      return std::make_unique<NpyReader>(bytes_of(npy_file("|i1", "False", shape, ""), "x.npy"),
                                                         std::nullopt);
                    }}),
                    DataError);
}

TEST_CASE("an array whose rest is missing or too long is found at its end", "[import]") {
  const auto read = [](const std::string& file) {
    const OpenArray open = [file] { return std::make_unique<NpyReader>(bytes_of(file, "x.npy"), std::nullopt); };
    return rows_of_arrays({open}).size();
  };
  const std::string whole = npy_file("|i1", "False", "3, 1", {1, 2, 3});
  CHECK(read(whole) == 3);
  CHECK_THROWS_WITH(read(whole + "x"), Catch::Contains("more bytes than its header announces"));
  CHECK_THROWS_WITH(read(whole.substr(0, whole.size() - 1)), Catch::Contains("ends before its last value"));
  CHECK_THROWS_AS(read(npy_file("|i1", "False", "1, 99999999999999", "")), DataError);
  CHECK_THROWS_AS(read(npy_file("<f8", "False", "4611686018427387904", "")), DataError);
}
