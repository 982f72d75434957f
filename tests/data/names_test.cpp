#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstring>

#include "hdf5/structure.hpp"
#include "support.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/dictionary.hpp"
#include "unisono/data/hdf5.hpp"

using namespace unisono::data;
using Catch::Matchers::Contains;
using unisono::data::hdf5::File;
using unisono::test::message_of;
using unisono::test::TempDir;
using Texts = std::vector<std::string>;

namespace {

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A file whose list has strings of variable length, as h5py and earlier versions write them, with its bytes changed.
class Damaged {
 public:
  Damaged() {
    File file(path(), File::Mode::create);
    file.write_strings("list", {"alpha", "beta", "gamma"});
    file.flush();
  }
  std::string path() const { return folder_ / "a.h5"; }

  /// What reading says after `bytes` at `offset` behind the first `mark` were replaced.
  std::string said(const std::string& mark, std::size_t offset, const std::string& bytes) const {
    std::string content = read_all(path());
    const std::size_t at = content.find(mark);
    REQUIRE(at != std::string::npos);
    const std::string whole = content;
    content.replace(at + offset, bytes.size(), bytes);
    unisono::test::write_file(path(), content);
    const std::string message =
        unisono::test::message_of<unisono::DataError>([&] { File(path(), File::Mode::read).read_strings("list"); });
    unisono::test::write_file(path(), whole);
    return message;
  }

 private:
  TempDir folder_;
};

std::string number(std::uint64_t value, std::size_t bytes) {
  std::string text(bytes, '\0');
  std::memcpy(text.data(), &value, bytes);
  return text;
}

}  // namespace

TEST_CASE("a heap that is damaged is refused, wherever it is", "[names]") {
  const Damaged file;
  // "GCOL", version, 3 bytes, size; then objects: index, references, 4 bytes, size, "alpha"
  CHECK(file.said("GCOL", 0, "GCOL").empty());
  CHECK_THAT(file.said("GCOL", 0, "GCOM"), Contains("a.h5: /list is damaged: a string refers to a heap at byte"));
  CHECK_THAT(file.said("GCOL", 8, number(UINT64_MAX, 8)), Contains("but there is none; make the file again"));
  CHECK_THAT(file.said("GCOL", 8, number(1ULL << 40, 8)), Contains("but there is none"));
  CHECK_THAT(file.said("GCOL", 16, number(7, 2)), Contains("refers to object 1 of the heap"));
  for (const std::uint64_t size : {std::uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 7})
    CHECK_THAT(file.said("GCOL", 24, number(size, 8)), Contains("is larger than the heap"));
}

TEST_CASE("a place of a string that lies outside is refused", "[names]") {
  const Damaged file;
  const std::string content = read_all(file.path());
  const std::uint64_t heap = content.find("GCOL");
  const std::string reference = number(5, 4) + number(heap, 8) + number(1, 4);  // length, collection, object
  CHECK(file.said(reference, 0, reference).empty());
  for (const std::uint64_t address :
       {std::uint64_t{8}, content.size(), content.size() - 8, std::uint64_t{1} << 62, UINT64_MAX, UINT64_MAX - 4096})
    CHECK_THAT(file.said(reference, 4, number(address, 8)), Contains("/list is damaged: a string refers to a heap"));
  for (const std::uint64_t index : {0, 4, 65535, 65536, 1 << 30})
    CHECK_THAT(file.said(reference, 12, number(index, 4)), Contains("/list is damaged: a string refers to object"));
}

TEST_CASE("strings cannot be longer than their file, however often it names one", "[names]") {
  const TempDir folder;
  {
    File file(folder / "a.h5", File::Mode::create);
    file.write_strings("list", Texts(100, std::string(1000, 'x')));
    file.flush();
  }
  std::string content = read_all(folder / "a.h5");
  const std::size_t heap = content.find("GCOL");
  std::uint64_t size = 4000;  // of the first object, which reaches into the others
  std::memcpy(content.data() + heap + 24, &size, 8);
  std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(heap) + 32, 3000, 'x');
  const std::string reference = number(1000, 4) + number(heap, 8);
  for (std::size_t at = content.find(reference); at != std::string::npos; at = content.find(reference, at + 1))
    std::memcpy(content.data() + at + 12, number(1, 4).data(), 4);
  unisono::test::write_file(folder / "a.h5", content);
  const File file(folder / "a.h5", File::Mode::read);
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.read_strings("list"); }),
             Contains("/list is damaged"));
}

TEST_CASE("names are bytes and offsets, read whole and in part", "[names]") {
  const TempDir folder;
  const Texts names{"a", "", "zwölf", std::string("with\0zero", 9)};
  {
    File file(folder / "a.h5", File::Mode::create);
    file.write_names("dictionary/words", names);
    file.write_names("none", {});
    file.create_group("other");
  }
  const File file(folder / "a.h5", File::Mode::read);
  CHECK(file.count_strings("dictionary/words") == 4);
  CHECK(file.read_strings("dictionary/words") == names);
  CHECK(file.read_strings("dictionary/words", 1, 2) == Texts{"", "zwölf"});
  CHECK(file.read_strings("none").empty());
  CHECK(file.read<std::uint8_t>("dictionary/words/bytes").size() == 1 + 6 + 9);
  CHECK(file.read<std::uint64_t>("dictionary/words/offsets") == std::vector<std::uint64_t>{0, 1, 1, 7, 16});
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.read_strings("dictionary/words", 3, 2); }),
             Contains("has 4 strings"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.read_strings("other"); }),
             Contains("/other is not a list of strings"));
}

TEST_CASE("names whose bytes or offsets were changed do not fit their checksum", "[names]") {
  const TempDir folder;
  const auto said = [&](const std::function<void(File&)>& change) {
    {
      File file(folder / "a.h5", File::Mode::create);
      file.write_names("list", {"ab", "cd", "ef"});
      change(file);
    }
    return unisono::test::message_of<unisono::DataError>(
        [&] { File(folder / "a.h5", File::Mode::read).read_strings("list"); });
  };
  const auto write = [](const std::string& dataset, std::uint64_t row, auto value) {
    return [=](File& file) { file.write_rows(dataset, row, 1, &value); };
  };
  CHECK(said([](File&) {}).empty());
  CHECK_THAT(said(write("list/bytes", 3, std::uint8_t{'x'})),
             Contains("/list is damaged: its checksum does not match"));
  for (const std::uint64_t offset : {std::uint64_t{1}, std::uint64_t{5}, UINT64_MAX})
    CHECK_THAT(said(write("list/offsets", 1, offset)), Contains("/list is damaged: its checksum does not match"));
  CHECK_THAT(said([](File& file) { file.write_attribute("list", "xxh3", std::int64_t{7}); }), Contains("is damaged"));
}

TEST_CASE("lists of strings in attributes have one length, and are read whatever they have", "[names]") {
  const TempDir folder;
  const Texts small{"a", "", "zwölf"}, large(4000, std::string(60, 'x'));  // more than an object's header has room for
  {
    File file(folder / "a.h5", File::Mode::create);
    file.write_attribute("", "small", small);
    file.write_attribute("", "large", large);
    file.write_attribute("", "text", std::string("zwölf"));
    CHECK(file.read_attribute<Texts>("", "large") == large);  // what is not on the disk yet, too
  }
  {
    const File file(folder / "a.h5", File::Mode::read);
    CHECK(file.read_attribute<Texts>("", "small") == small);
    CHECK(file.read_attribute<Texts>("", "large") == large);
    CHECK(file.read_attribute<std::string>("", "text") == "zwölf");
  }
  std::string content = read_all(folder / "a.h5");
  content.replace(content.find("GCOL") + 24, 8, number(UINT64_MAX, 8));
  unisono::test::write_file(folder / "a.h5", content);
  const File file(folder / "a.h5", File::Mode::read);
  CHECK(file.read_attribute<Texts>("", "small") == small);  // not in the heap
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { file.read_attribute<Texts>("", "large"); }),
             Contains("a.h5: / attribute 'large' is damaged"));
}

TEST_CASE("a dictionary of an earlier version is read, a new one comes back whole or not at all", "[names]") {
  const TempDir folder;
  const std::string old = folder / "old.h5", made = folder / "new.h5";
  {
    File file(old, File::Mode::create);
    file.write_strings("dictionary/words", {"a", "b"});
    file.write<std::int64_t>("dictionary/counts", {2, 1});
  }
  const unisono::data::Dictionary dictionary = unisono::data::read_dictionary(old);
  REQUIRE(dictionary.size() == 1);
  CHECK(dictionary[0].names == Texts{"a", "b"});
  unisono::data::write_dictionary(made, dictionary);
  CHECK(unisono::data::read_dictionary(made)[0].names == Texts{"a", "b"});
  const std::string content = read_all(made);
  for (std::size_t at = 0; at < content.size(); at += 7) {
    std::string changed = content;
    changed[at] = static_cast<char>(changed[at] ^ 4);
    unisono::test::write_file(made, changed);
    CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::read_dictionary(made); }),
               Contains("was changed or damaged"));
  }
}

TEST_CASE("extents that the file has no room for are refused before memory is asked for", "[names]") {
  const TempDir folder;
  const auto said = [&](const std::function<void(File&)>& make, const std::string& from, const std::string& to) {
    {
      File file(folder / "a.h5", File::Mode::create);
      make(file);
    }
    std::string content = read_all(folder / "a.h5");
    REQUIRE(content.find(from) != std::string::npos);
    for (std::size_t at = content.find(from); at != std::string::npos; at = content.find(from, at + to.size()))
      content.replace(at, to.size(), to);
    unisono::test::write_file(folder / "a.h5", content);
    return unisono::test::message_of<unisono::DataError>(
        [&] { File(folder / "a.h5", File::Mode::read).read<float>("x"); });
  };
  const auto plain = [](File& file) { file.write("x", std::vector<float>(77, 1)); };
  CHECK_THAT(said(plain, number(77, 8), number(1ULL << 60, 8)), Contains("/x has shape [1152921504606846976]"));
  const auto packed = [](File& file) {
    file.create<float>("x", {77, 5}, 11, 1);
    file.write_rows("x", 0, 77, std::vector<float>(385, 1).data());
  };
  // Extents of chunks take 4 bytes each: 11 rows of 5 values of 4 bytes.
  CHECK(said(packed, number(77, 8), number(77, 8)).empty());
  for (const std::uint64_t rows : {0, 77, 1 << 24})
    CHECK_THAT(said(packed, number(11, 4) + number(5, 4) + number(4, 4), number(rows, 4)), Contains("is damaged"));
}
