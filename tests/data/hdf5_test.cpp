#include "unisono/data/hdf5.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "source_folder.hpp"
#include "support.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono::data;
using unisono::data::hdf5::File;
using unisono::test::message_of;
using unisono::test::TempDir;

namespace {

std::string fixture() { return unisono::test::source_folder() + "/tests/data/fixtures/h5py.h5"; }

/// Limits the size of files that this process writes; a write beyond it fails as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEMPLATE_TEST_CASE("rows that were written are read back", "[hdf5]", std::uint8_t, std::uint32_t, std::int32_t,
                   std::int64_t, std::uint64_t, float, double) {
  const TempDir folder;
  const std::vector<TestType> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::uint64_t chunk_rows = GENERATE(0, 2);
  File file(folder / "a.h5", File::Mode::create);
  file.create<TestType>("group/values", {5, 2}, chunk_rows, chunk_rows > 0 ? 3 : 0);
  file.write_rows("group/values", 0, 3, values.data());
  file.write_rows("group/values", 3, 2, values.data() + 6);

  CHECK(file.read<TestType>("group/values") == values);
  std::vector<TestType> middle(4);
  file.read_rows("group/values", 1, 2, middle.data());
  CHECK(middle == std::vector<TestType>{2, 3, 4, 5});
  const auto shape = file.shape("group/values");
  CHECK(shape.extent == std::vector<std::uint64_t>{5, 2});
  CHECK(shape.chunk == (chunk_rows > 0 ? std::vector<std::uint64_t>{2, 2} : std::vector<std::uint64_t>{}));
  CHECK(shape.compressed == (chunk_rows > 0));
  CHECK(shape.rows() == 5);
  CHECK(shape.row_size() == 2);
  CHECK(unisono::data::hdf5::size_of(shape.type) == sizeof(TestType));
}

TEST_CASE("a file lasts beyond its object, and can be updated", "[hdf5]") {
  const TempDir folder;
  {
    File file(folder / "a.h5", File::Mode::create);
    file.write<float>("w", {1, 2, 3});
    file.flush();
  }
  {
    File file(folder / "a.h5", File::Mode::update);
    const float nine = 9;
    file.write_rows("w", 1, 1, &nine);
    file.write<std::int64_t>("steps", {7});
  }
  const File file(folder / "a.h5", File::Mode::read);
  CHECK(file.read<float>("w") == std::vector<float>{1, 9, 3});
  CHECK(file.children("") == std::vector<std::string>{"steps", "w"});
}

TEST_CASE("room that was reserved is filled beside HDF5", "[hdf5]") {
  const TempDir folder;
  std::uint64_t first = 0, second = 0;
  {
    File file(folder / "a.h5", File::Mode::create);
    first = file.reserve<float>("group/first", {2, 2});
    second = file.reserve<std::int64_t>("second", {1});
    CHECK(file.reserve<float>("none", {0, 3}) == 0);
    file.create<float>("chunked", {4}, 2);
    CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.offset("chunked"); }),
               Catch::Contains("is not stored contiguously"));
    file.flush();
  }
  const std::vector<float> values = {1, 2, 3, 4};
  const std::int64_t number = 7;
  std::fstream raw(folder / "a.h5", std::ios::in | std::ios::out | std::ios::binary);
  raw.seekp(static_cast<std::streamoff>(first)).write(reinterpret_cast<const char*>(values.data()), 16);
  raw.seekp(static_cast<std::streamoff>(second)).write(reinterpret_cast<const char*>(&number), 8);
  raw.close();
  const File file(folder / "a.h5", File::Mode::read);
  CHECK(file.offset("group/first") == first);
  CHECK(file.read<float>("group/first") == values);
  CHECK(file.read<std::int64_t>("second") == std::vector<std::int64_t>{7});
}

TEST_CASE("an empty dataset has a shape and no rows", "[hdf5]") {
  const TempDir folder;
  File file(folder / "a.h5", File::Mode::create);
  file.create<float>("none", {0, 4}, 16);
  CHECK(file.shape("none").rows() == 0);
  CHECK(file.read<float>("none").empty());
}

TEST_CASE("attributes of files, groups and datasets are read back and replaced", "[hdf5]") {
  const TempDir folder;
  File file(folder / "a.h5", File::Mode::create);
  file.create_group("deep/group");
  file.write<float>("values", {1});
  for (const std::string object : {"", "deep/group", "values"}) {
    file.write_attribute(object, "number", std::int64_t{-5});
    file.write_attribute(object, "real", 0.1);
    file.write_attribute(object, "text", std::string("zwölf"));
    file.write_attribute(object, "texts", std::vector<std::string>{"a", "", "ccc"});
    file.write_attribute(object, "number", std::int64_t{1} << 60);
    CHECK(file.read_attribute<std::int64_t>(object, "number") == std::int64_t{1} << 60);
    CHECK(file.read_attribute<double>(object, "real") == 0.1);
    CHECK(file.read_attribute<std::string>(object, "text") == "zwölf");
    CHECK(file.read_attribute<std::vector<std::string>>(object, "texts") == std::vector<std::string>{"a", "", "ccc"});
    CHECK_FALSE(file.has_attribute(object, "missing"));
  }
}

TEST_CASE("datasets of strings are read back, whole and in parts", "[hdf5]") {
  const TempDir folder;
  std::vector<std::string> many(70000);  // more than are written at a time
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = fmt::format("wort {}", i);
  {
    File file(folder / "a.h5", File::Mode::create);
    file.write_strings("dictionary/few", {"a", "", "zwölf"});
    file.write_strings("none", {});
    file.write_strings("many", many);
    file.write<float>("numbers", {1});
  }
  const File file(folder / "a.h5", File::Mode::read);
  CHECK(file.shape("dictionary/few").type == unisono::data::hdf5::Type::text);
  CHECK(file.read_strings("dictionary/few") == std::vector<std::string>{"a", "", "zwölf"});
  CHECK(file.read_strings("none").empty());
  CHECK(file.read_strings("many") == many);
  CHECK(file.read_strings("many", 69998, 2) == std::vector<std::string>{"wort 69998", "wort 69999"});
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.read_strings("many", 69999, 2); }),
             Catch::Contains("has 70,000 rows"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.read_strings("numbers"); }),
             Catch::Contains("is not a list of strings"));
}

TEST_CASE("strings of fixed length, as h5py writes them, are read", "[hdf5]") {
  const File file(unisono::test::source_folder() + "/tests/data/fixtures/h5py_strings.h5", File::Mode::read);
  const std::vector<std::string> expected{"ab", "abcd", ""};
  CHECK(file.read_strings("fixed") == expected);     // numpy's S4
  CHECK(file.read_strings("variable") == expected);  // h5py's str
  CHECK(file.read_strings("ascii") == expected);     // of variable length
  CHECK(file.read_strings("fixed", 1, 1) == std::vector<std::string>{"abcd"});
}

TEST_CASE("files that h5py wrote are understood", "[hdf5]") {
  const File file(fixture(), File::Mode::read);
  CHECK(file.shape("half").type == unisono::data::hdf5::Type::float16);
  CHECK(file.shape("flags").type == unisono::data::hdf5::Type::other);
  CHECK(file.shape("small").type == unisono::data::hdf5::Type::int16);
  CHECK(file.shape("doubles").type == unisono::data::hdf5::Type::float64);
  CHECK(file.shape("packed").compressed);

  const auto half = file.read<float>("half");
  // The smallest subnormal, 2⁻²⁴, is the half nearest to 6e-8.
  CHECK(half == std::vector<float>{1, 0.5, -2, 65504, 0x1p-24F, std::numeric_limits<float>::infinity()});
  CHECK(file.read<unisono::data::hdf5::Half>("half_big_endian")[0].bits == 0x3E00);  // 1.5 = 0 01111 1000000000
  CHECK(file.read<std::int64_t>("small") == std::vector<std::int64_t>{-3, 300});
  CHECK(file.read<std::uint8_t>("packed")[77] == 77);

  CHECK(file.read_attribute<double>("packed", "scale") == 1.0 / 255);
  CHECK(file.read_attribute<double>("packed", "offset") == 0.5);
  CHECK(file.read_attribute<std::int64_t>("packed", "count") == 7);
  CHECK(file.read_attribute<std::vector<std::string>>("", "class_names") ==
        std::vector<std::string>{"null", "eins", "zwölf"});
  CHECK(file.read_attribute<std::string>("", "fixed") == "ascii");
  CHECK(file.read_attribute<std::string>("", "title") == "Größe");
  CHECK(file.exists("train/nested"));
  CHECK_FALSE(file.exists("train/other"));
  CHECK_FALSE(file.exists("absent/other"));
  CHECK_FALSE(file.is_dataset("train"));
}

TEST_CASE("half precision is written as h5py reads it", "[hdf5]") {
  const TempDir folder;
  File file(folder / "a.h5", File::Mode::create);
  file.write<unisono::data::hdf5::Half>("half", {{0x3C00}, {0xC000}});
  CHECK(file.shape("half").type == unisono::data::hdf5::Type::float16);
  CHECK(file.read<float>("half") == std::vector<float>{1, -2});
}

TEST_CASE("a file that is none is refused by name, with what to do", "[hdf5]") {
  const TempDir folder;
  const auto open = [](const std::string& path) {
    return unisono::test::message_of<unisono::DataError>([&] { File(path, File::Mode::read); });
  };
  CHECK(open(folder / "none.h5") == folder / "none.h5: there is no such file; check the path");
  CHECK_THAT(open(folder.path()), Catch::Contains("this is a folder"));
  unisono::test::write_file(folder / "text.h5", "label,x,y\n1,2,3\n");
  CHECK_THAT(open(folder / "text.h5"), Catch::Contains("not an HDF5 file") && Catch::Contains("unisono data import"));
  unisono::test::write_file(folder / "empty.h5", "");
  CHECK_THAT(open(folder / "empty.h5"), Catch::Contains("not an HDF5 file"));
  CHECK_FALSE(unisono::data::hdf5::is_hdf5(folder / "text.h5"));
  CHECK(unisono::data::hdf5::is_hdf5(fixture()));
}

TEST_CASE("a truncated file is refused with HDF5's reason", "[hdf5]") {
  const TempDir folder;
  std::filesystem::copy(fixture(), folder / "cut.h5");
  std::filesystem::resize_file(folder / "cut.h5", std::filesystem::file_size(fixture()) / 2);
  const auto message =
      unisono::test::message_of<unisono::DataError>([&] { File(folder / "cut.h5", File::Mode::read); });
  CHECK_THAT(message, Catch::Contains("cut.h5") && Catch::Contains("truncated file") && Catch::Contains("damaged"));
}

TEST_CASE("what is missing in a file is named by its path", "[hdf5]") {
  const File file(fixture(), File::Mode::read);
  float value = 0;
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.shape("train/features"); }),
             Catch::Contains("h5py.h5: /train/features does not exist"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.shape("train"); }),
             Catch::Contains("/train is not a dataset"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.read_rows("doubles", 1, 2, &value); }),
             Catch::Contains("/doubles has 2 rows; rows 1 to 3 were requested"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.read_attribute<double>("packed", "deviation"); }),
             Catch::Contains("/packed has no attribute 'deviation'"));
  CHECK_THAT(
      unisono::test::message_of<unisono::DataError>([&] { file.read_attribute<std::int64_t>("packed", "scale"); }),
      Catch::Contains("attribute 'scale' has the wrong type"));
  CHECK_THAT(
      unisono::test::message_of<unisono::DataError>([&] { file.read_attribute<std::int64_t>("packed", "shape"); }),
      Catch::Contains("attribute 'shape' has the wrong type or size"));
}

TEST_CASE("a damaged chunk is an error of the rows that lie in it alone", "[hdf5]") {
  const TempDir folder;
  {
    File file(folder / "a.h5", File::Mode::create);
    file.create<std::int32_t>("values", {1000}, 500, 1);
    const std::vector<std::int32_t> values(1000, 0x55AA55AA);
    file.write_rows("values", 0, 1000, values.data());
  }
  std::ifstream in(folder / "a.h5", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const auto stream = bytes.find("\x78\x01");  // the head of a zlib stream of level 1
  REQUIRE(stream != std::string::npos);
  bytes[stream + 3] ^= 0x40;
  unisono::test::write_file(folder / "a.h5", bytes);

  const File file(folder / "a.h5", File::Mode::read);
  std::vector<std::int32_t> values(500);
  int failures = 0;
  for (const std::uint64_t first : {0, 500}) {
    const auto message =
        unisono::test::message_of<unisono::DataError>([&] { file.read_rows("values", first, 500, values.data()); });
    if (message.empty()) continue;
    ++failures;
    CHECK_THAT(message, Catch::Contains("/values rows") && Catch::Contains("may be damaged"));
  }
  CHECK(failures == 1);
}

TEST_CASE("a file that is written to while it is read is an error, not zeros", "[hdf5]") {
  const TempDir folder;
  const std::string path = folder / "a.h5";
  {
    File file(path, File::Mode::create);
    file.write<float>("x", std::vector<float>(100, 1));
  }
  const File file(path, File::Mode::read);
  std::vector<float> values(100);
  file.read_rows("x", 0, 100, values.data());
  std::filesystem::resize_file(path, 300);
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.read_rows("x", 0, 100, values.data()); }),
             Catch::Contains("/x changed while it was being read"));
}

TEST_CASE("a full disk is an output error, and the process goes on", "[hdf5]") {
  const TempDir folder;
  CHECK_THAT(unisono::test::message_of<unisono::OutputError>([&] { File(folder / "none/a.h5", File::Mode::create); }),
             Catch::Contains("cannot be created"));
  {
    const FileSizeLimit limit(64 << 10);
    const auto message = unisono::test::message_of<unisono::OutputError>([&] {
      File file(folder / "a.h5", File::Mode::create);
      file.write(std::string("values"), std::vector<float>(1 << 20));
      file.flush();
    });
    CHECK_THAT(message,
               Catch::Contains("a.h5: /values cannot be written (HDF5: ") && Catch::Contains("File too large"));
  }
  File file(folder / "b.h5", File::Mode::create);
  file.write<float>("values", {1});
  CHECK(file.read<float>("values") == std::vector<float>{1});
}

TEST_CASE("threads may call the library at the same time", "[hdf5]") {
  const TempDir folder;
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      File file(folder / fmt::format("{}.h5", t), File::Mode::create);
      for (int i = 0; i < 20; ++i) file.write<std::int64_t>(fmt::format("values/{}", i), {t, i});
      for (int i = 0; i < 20; ++i) {
        right += file.read<std::int64_t>(fmt::format("values/{}", i)) == std::vector<std::int64_t>{t, i} ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(right == 80);
}
