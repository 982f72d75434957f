#include "unisono/data/staging.hpp"

#include <fcntl.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "sets.hpp"
#include "stage/page_file.hpp"
#include "stage/stage_folder.hpp"
#include "unisono/base/file_bytes.hpp"
#include "unisono/base/raw_file.hpp"

using namespace unisono::data;
using Catch::Matchers::Contains;
using unisono::test::message_of;
using unisono::test::TempDir;

namespace {

/// Two whole pages and a short one.
constexpr std::uint64_t kThreePages = 2 * kPageBytes + 1000;

std::vector<std::byte> page_contents(const PageFile& file, std::uint64_t page) {
  std::vector<std::byte> bytes(file.page_bytes(page));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 7 + page) % 251);
  return bytes;
}

PageFile::Found found(const PageFile& file, std::uint64_t page) {
  std::vector<std::byte> bytes(file.page_bytes(page));
  return file.read_page(page, bytes);
}

/// A copy that is whole. \return its folder
std::string whole_copy(const TempDir& folder) {
  const std::string path = folder / "copy";
  std::filesystem::create_directories(path);
  PageFile file(path, kThreePages, 5);
  for (std::uint64_t page = 0; page < 3; ++page) REQUIRE(file.write_page(page, page_contents(file, page)) == 0);
  return path;
}

void flip_byte(const std::string& path, std::uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get() ^ 16);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

std::string bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A set of so many pages of plain bytes, which HDF5 never sees.
std::string write_bytes(const std::string& path, std::uint64_t bytes, unsigned seed = 1) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>((i * 31 + i / 997 * seed) % 255);
  unisono::test::write_file(path, text);
  return path;
}

/// A node's folder and its copies.
struct Disk {
  explicit Disk(const std::string& folder) : path(folder) { std::filesystem::create_directories(folder); }
  std::string path;
  std::vector<std::string> warnings = {};

  std::unique_ptr<StagedSet> stage(const std::string& set, std::int64_t most_bytes = 0, int parts = 1) {
    DataSettings settings;
    settings.path = set;
    settings.stage = path;
    settings.stage_bytes = most_bytes;
    const NodeShare alone;
    return stage_set(settings, alone,
                     {.parts = parts, .warn = [this](const std::string& text) { warnings.push_back(text); }});
  }
  std::vector<std::string> copies() const {
    std::vector<std::string> found;
    for (const auto& user : std::filesystem::directory_iterator(path))
      for (const auto& entry : std::filesystem::directory_iterator(user))
        if (entry.is_directory()) found.push_back(entry.path().string());
    return found;
  }
  std::string copy() const { return copies().at(0); }
};

/// Reads a whole file through whatever redirection there is.
std::vector<std::byte> contents(const std::string& path) {
  const unisono::RawFile file(path, unisono::RawFile::Mode::read);
  std::vector<std::byte> bytes(file.size());
  file.read(0, bytes);
  return bytes;
}

}  // namespace

TEST_CASE("a page is whole only where its bytes and its hash are", "[staging]") {
  const TempDir folder;
  std::filesystem::create_directories(folder / "copy");
  PageFile file(folder / "copy", kThreePages, 5);
  CHECK(file.pages() == 3);
  CHECK(file.page_bytes(2) == 1000);
  CHECK(found(file, 1) == PageFile::Found::missing);
  REQUIRE(file.write_page(1, page_contents(file, 1)) == 0);
  REQUIRE(file.write_page(2, page_contents(file, 2)) == 0);
  CHECK(found(file, 0) == PageFile::Found::missing);
  CHECK(found(file, 1) == PageFile::Found::whole);
  CHECK(file.count() == 2);
  std::vector<std::byte> read(1000);
  REQUIRE(file.read_page(2, read) == PageFile::Found::whole);
  CHECK(read == page_contents(file, 2));

  SECTION("every byte counts") {
    for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{1}, kPageBytes / 2, kPageBytes - 1}) {
      flip_byte(folder / "copy/pages", kPageBytes + at);
      CHECK(found(file, 1) == PageFile::Found::damaged);
      flip_byte(folder / "copy/pages", kPageBytes + at);
      CHECK(found(file, 1) == PageFile::Found::whole);
    }
  }
  SECTION("a page of another file, or of another place, does not fit") {
    CHECK(found(PageFile(folder / "copy", kThreePages, 6), 1) == PageFile::Found::damaged);
    std::filesystem::copy_file(folder / "copy/index", folder / "index");
    unisono::test::write_file(folder / "copy/index", bytes_of_file(folder / "index").substr(8));
    CHECK(found(PageFile(folder / "copy", kThreePages, 5), 0) == PageFile::Found::damaged);
  }
}

TEST_CASE("an index that is cut at any byte names no page that is not whole", "[staging]") {
  const TempDir folder;
  const std::string copy = whole_copy(folder);
  const std::string index = bytes_of_file(copy + "/index");
  REQUIRE(index.size() == 24);
  for (std::size_t bytes = 0; bytes <= index.size(); ++bytes) {
    unisono::test::write_file(copy + "/index", index.substr(0, bytes));
    const PageFile file(copy, kThreePages, 5);
    for (std::uint64_t page = 0; page < 3; ++page) {
      const bool is_named = bytes >= 8 * (page + 1);
      CHECK((found(file, page) == PageFile::Found::whole) == is_named);
    }
  }
}

TEST_CASE("pages that were cut off are not used", "[staging]") {
  const TempDir folder;
  const std::string copy = whole_copy(folder);
  for (const std::uint64_t bytes : {kThreePages - 1, 2 * kPageBytes, kPageBytes + 1, std::uint64_t{0}}) {
    std::filesystem::resize_file(copy + "/pages", bytes);
    const PageFile file(copy, kThreePages, 5);
    for (std::uint64_t page = 0; page < 3; ++page) {
      const bool is_there = page * kPageBytes + file.page_bytes(page) <= bytes;
      CHECK((found(file, page) == PageFile::Found::whole) == is_there);
    }
  }
}

TEST_CASE("what is read of a file is staged, and read there from then on", "[staging]") {
  const TempDir folder;
  const std::string path = write_bytes(folder / "set", 20 * kPageBytes + 77);
  const auto expected = contents(path);
  Disk disk(folder / "disk");
  const auto bytes = static_cast<std::int64_t>(expected.size());
  {
    const auto set = disk.stage(path);
    REQUIRE(contents(path) == expected);
    CHECK(set->read_bytes().file == bytes);
    REQUIRE(contents(path) == expected);
    CHECK(set->read_bytes().file == bytes);
    CHECK(set->read_bytes().copy == bytes);
    // Across pages, at the file's end, and beyond it.
    std::vector<std::byte> part(2 * kPageBytes);
    set->read_here(kPageBytes - 3, part);
    CHECK(std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(kPageBytes - 3)));
    CHECK_THROWS_AS(set->read_here(expected.size() - 5, std::span(part).first(6)), unisono::DataError);
  }
  CHECK(unisono::redirection_of(path) == nullptr);
  const auto again = disk.stage(path);
  REQUIRE(contents(path) == expected);
  CHECK(again->read_bytes().file == 0);
  CHECK(again->read_bytes().copy == bytes);
  CHECK(disk.warnings.empty());
}

TEST_CASE("a damaged part of a copy is read again, with one warning", "[staging]") {
  const TempDir folder;
  const std::string path = write_bytes(folder / "set", 8 * kPageBytes);
  const auto expected = contents(path);
  Disk disk(folder / "disk");
  {
    const auto set = disk.stage(path);
    contents(path);
  }
  flip_byte(disk.copy() + "/pages", 3 * kPageBytes + 12);
  flip_byte(disk.copy() + "/pages", 5 * kPageBytes);
  {
    const auto set = disk.stage(path);
    CHECK(contents(path) == expected);
    CHECK(set->read_bytes().file == 2 * static_cast<std::int64_t>(kPageBytes));
    REQUIRE(disk.warnings.size() == 1);
    CHECK_THAT(disk.warnings[0], Contains("/set: a part of the copy on the local disk is damaged"));
  }
  const auto set = disk.stage(path);
  CHECK(contents(path) == expected);
  CHECK(set->read_bytes().file == 0);
}

TEST_CASE("a set that has changed is staged anew, and its old copy is removed", "[staging]") {
  const TempDir folder;
  const std::string path = write_bytes(folder / "set", 4 * kPageBytes);
  Disk disk(folder / "disk");
  {
    const auto set = disk.stage(path);
    contents(path);
  }
  const std::string old = disk.copy();
  const auto time = std::filesystem::last_write_time(path);
  write_bytes(path, 4 * kPageBytes, 2);
  std::filesystem::last_write_time(path, time);  // as some tools do; the time of the status stays
  const auto expected = contents(path);
  const auto set = disk.stage(path);
  CHECK(contents(path) == expected);
  CHECK(set->read_bytes().file == static_cast<std::int64_t>(expected.size()));
  CHECK(disk.copies().size() == 1);
  CHECK(disk.copy() != old);
}

TEST_CASE("copies that were used least recently make room, but none that is in use", "[staging]") {
  const TempDir folder;
  Disk disk(folder / "disk");
  const auto size = static_cast<std::int64_t>(4 * kPageBytes), limit = 5 * size / 2;
  std::vector<std::string> paths;
  for (const char* name : {"a", "b", "c", "d"}) paths.push_back(write_bytes(folder / name, 4 * kPageBytes));
  const auto fill = [&](std::size_t i) {
    auto set = disk.stage(paths[i], limit);
    contents(paths[i]);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // times of last use differ
    return set;
  };
  const auto is_kept = [&](std::size_t i) {
    const auto set = disk.stage(paths[i], limit);
    contents(paths[i]);
    return set->read_bytes().file == 0;
  };
  fill(0);
  auto second = fill(1);
  fill(2);  // no room for three: the first one goes
  CHECK(disk.copies().size() == 2);
  CHECK(is_kept(2));
  second.reset();
  CHECK(is_kept(1));

  SECTION("where all others are in use, only what has room is kept") {
    const auto one = disk.stage(paths[1], limit), other = disk.stage(paths[2], limit);
    const auto third = disk.stage(paths[3], limit);
    CHECK_THAT(third->text(), Contains("there is room for"));
    const auto expected = contents(paths[3]);
    CHECK(third->read_bytes().file == size);
    CHECK(contents(paths[3]) == expected);
    CHECK(third->read_bytes().file > size);
    CHECK(disk.copies().size() == 3);
    std::uintmax_t on_disk = 0;
    for (const std::string& copy : disk.copies()) on_disk += PageFile(copy, 4 * kPageBytes, 0).bytes_on_disk();
    CHECK(on_disk <= static_cast<std::uintmax_t>(limit));
  }
}

TEST_CASE("two users of a copy read every page of the file once between them", "[staging]") {
  const TempDir folder;
  const std::string path = write_bytes(folder / "set", 64 * kPageBytes);
  const auto expected = contents(path);
  Disk disk(folder / "disk");
  const auto one = disk.stage(path), other = disk.stage(path);
  std::atomic<int> wrong = 0;
  const auto read_all = [&](StagedSet& set, std::uint64_t step) {
    std::vector<std::byte> part(3 * kPageBytes / 2);
    for (std::uint64_t i = 0; i < 64; ++i) {
      const std::uint64_t at = std::min(i * step % 64 * kPageBytes, expected.size() - part.size());
      set.read_here(at, part);
      if (!std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(at))) ++wrong;
    }
  };
  {
    const std::jthread first([&] { read_all(*one, 1); }), second([&] { read_all(*other, 7); }),
        third([&] { read_all(*one, 13); });
  }
  CHECK(wrong == 0);
  CHECK(one->read_bytes().file + other->read_bytes().file == static_cast<std::int64_t>(expected.size()));
}

TEST_CASE("nodes divide a set, and read it once between them", "[staging]") {
  const TempDir folder;
  const std::string path = write_bytes(folder / "set", 50 * kPageBytes + 9);
  const auto expected = contents(path);
  struct Node final : StageNeighbours {
    std::vector<std::unique_ptr<StagedSet>>& sets;
    explicit Node(std::vector<std::unique_ptr<StagedSet>>& all) : sets(all) {}
    void read(int node, std::uint64_t at, std::span<std::byte> bytes) override {
      sets[static_cast<std::size_t>(node)]->read_here(at, bytes);
    }
  };
  std::vector<std::unique_ptr<StagedSet>> sets;
  Node neighbours(sets);
  std::vector<std::unique_ptr<Disk>> disks;
  for (int node = 0; node < 3; ++node) {
    disks.push_back(std::make_unique<Disk>(folder / std::to_string(node)));
    sets.push_back(disks.back()->stage(path, 0, 3));
  }
  for (int node = 0; node < 3; ++node) sets[static_cast<std::size_t>(node)]->divide(node, 3, &neighbours);
  REQUIRE(contents(path) == expected);  // through the node that was staged last
  const auto sum = [&](std::int64_t StagedBytes::*bytes) {
    std::int64_t total = 0;
    for (const auto& set : sets) total += set->read_bytes().*bytes;
    return total;
  };
  CHECK(sum(&StagedBytes::file) == static_cast<std::int64_t>(expected.size()));
  CHECK(sets[0]->read_bytes().file == 18 * static_cast<std::int64_t>(kPageBytes) + 9);
  CHECK(sets[1]->read_bytes().file == 16 * static_cast<std::int64_t>(kPageBytes));
  CHECK(sum(&StagedBytes::neighbours) == static_cast<std::int64_t>(expected.size() - 16 * kPageBytes));
  for (std::uint64_t at : {std::uint64_t{0}, 16 * kPageBytes - 5, 33 * kPageBytes + 1, 50 * kPageBytes}) {
    std::vector<std::byte> little(9);
    const unisono::RawFile file(path, unisono::RawFile::Mode::read);
    file.read(at, little);
    CHECK(std::equal(little.begin(), little.end(), expected.begin() + static_cast<std::ptrdiff_t>(at)));
  }
  CHECK(sum(&StagedBytes::file) == static_cast<std::int64_t>(expected.size()));
  sets.back()->divide(0, 1, nullptr);
}

TEST_CASE("HDF5 reads a staged set, and says why it cannot", "[staging]") {
  const TempDir folder;
  const std::string path =
      unisono::test::write_set(folder / "set.h5", {.train = 5000, .shape = {64}, .chunk_rows = 100, .compression = 4});
  const auto plain = hdf5::File(path, hdf5::File::Mode::read).read<float>("train/features");
  Disk disk(folder / "disk");
  for (int job = 0; job < 2; ++job) {
    const auto set = disk.stage(path);
    const hdf5::File file(path, hdf5::File::Mode::read);
    CHECK(file.read<float>("train/features") == plain);
    CHECK((set->read_bytes().file == 0) == (job == 1));
  }
  struct Broken final : StageNeighbours {
    void read(int, std::uint64_t, std::span<std::byte>) override { throw unisono::DataError("the neighbour is gone"); }
  } broken;
  const auto set = disk.stage(path);
  const hdf5::File file(path, hdf5::File::Mode::read);
  set->divide(1, 2, &broken);
  CHECK_THAT(message_of<unisono::DataError>([&] { file.read<float>("train/features"); }),
             Contains("the neighbour is gone"));
  set->divide(0, 1, nullptr);
}

TEST_CASE("a folder that cannot be used is refused", "[staging]") {
  const TempDir folder;
  const std::string path = write_bytes(folder / "set", 100);
  Disk disk(folder / "disk");
  const auto said = [&](const std::string& stage) {
    disk.path = stage;
    return message_of<unisono::ConfigError>([&] { disk.stage(path); });
  };
  CHECK_THAT(said(folder / "nowhere"), Contains("data.stage = \"") && Contains("there is no such folder"));
  CHECK_THAT(said(path), Contains("there is no such folder"));
  CHECK_THAT(said("/proc"), Contains("cannot be written") || Contains("does not belong to you alone"));
  const std::string shared = folder / "shared", own = shared + "/unisono-" + std::to_string(::geteuid());
  std::filesystem::create_directories(own);
  std::filesystem::permissions(own, std::filesystem::perms::all);
  CHECK_THAT(said(shared), Contains("does not belong to you alone"));
}
