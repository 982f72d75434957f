#include <catch2/catch.hpp>

#include "import/set_writer.hpp"
#include "set/form.hpp"
#include "sets.hpp"
#include "unisono/data/dataset.hpp"

using namespace unisono::data;
using Catch::Matchers::Contains;
using unisono::test::message_of;

namespace {

constexpr std::uint64_t kSegment = 64 << 20;

/// Changes a byte, and the time of the last change, which may not differ otherwise.
void flip(const std::string& path, std::uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
  file.close();
  static int changes = 0;
  std::filesystem::last_write_time(path,
                                   std::filesystem::file_time_type::clock::now() + std::chrono::seconds(++changes));
}

std::string said(const std::string& path, int rank = 0, int ranks = 1) {
  return unisono::test::message_of<unisono::DataError>([&] { unisono::data::check_seal(path, rank, ranks); });
}

/// So many bytes, most of them a hole.
std::string sealed(const unisono::test::TempDir& folder, std::uint64_t bytes) {
  const std::string path = folder / "a.bin";
  unisono::test::write_file(path, "content");
  std::filesystem::resize_file(path, bytes);
  unisono::data::seal_set(path);
  return path;
}

}  // namespace

TEST_CASE("a set of up to 256 MiB is checked whole", "[long][seal]") {
  const unisono::test::TempDir folder;
  for (const std::uint64_t bytes : {std::uint64_t{7}, kSegment - 1, kSegment, kSegment + 1, 4 * kSegment}) {
    const std::string path = sealed(folder, bytes);
    const std::uint64_t all = std::filesystem::file_size(path);
    CHECK(all == bytes + 8 * ((bytes + kSegment - 1) / kSegment) + 25);
    CHECK(said(path).empty());
    for (const std::uint64_t at : {std::uint64_t{0}, bytes / 2, bytes - 1, bytes + 3, all - 1}) {
      flip(path, at);
      CHECK_THAT(said(path), Contains("a.bin: was changed or damaged since it was written"));
      flip(path, at);
    }
    CHECK(said(path).empty());
  }
}

TEST_CASE("the ranks of a node share the check", "[seal]") {
  const unisono::test::TempDir folder;
  const std::string path = sealed(folder, 3 * kSegment);
  flip(path, kSegment + 5);
  CHECK(said(path, 0, 2).empty());
  CHECK_FALSE(said(path, 1, 2).empty());
  CHECK(said(path, 3, 4).empty());
}

TEST_CASE("of a larger set, four segments are checked, the first and the last among them", "[long][seal]") {
  const unisono::test::TempDir folder;
  const std::string path = sealed(folder, 7 * kSegment);
  const auto finds = [&](std::uint64_t segment) {
    flip(path, segment * kSegment + 9);
    const bool found = !said(path).empty();
    flip(path, segment * kSegment + 9);
    return found;
  };
  CHECK((finds(0) && finds(2) && finds(4) && finds(6)));
  CHECK_FALSE((finds(1) || finds(3) || finds(5)));
}

TEST_CASE("sets that were made are sealed, and refused when they were changed", "[seal]") {
  const unisono::test::TempDir folder;
  const std::string path = folder / "a.h5";
  {
    unisono::data::SetWriter writer({.path = path});
    unisono::test::write_group<float>(writer.file(), "train", 10, {});
    writer.finish();
  }
  CHECK_FALSE(unisono::data::describe_set(path).empty());
  const std::uint64_t all = std::filesystem::file_size(path);
  std::filesystem::copy(path, folder / "b.h5");
  for (const std::uint64_t cut : {1, 24, 32}) {  // of 33 bytes of checksum
    std::filesystem::resize_file(folder / "b.h5", all - cut);
    CHECK_THAT(said(folder / "b.h5"), Contains("its checksum is cut off or damaged"));
  }
  std::filesystem::resize_file(folder / "b.h5", all - 33);
  CHECK(said(folder / "b.h5").empty());
  unisono::data::DataSettings settings;
  settings.path = path;
  flip(path, std::filesystem::file_size(path) / 2);
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::describe_set(path); }),
             Contains("was changed or damaged"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::inspect_dataset(settings); }),
             Contains("was changed or damaged"));
  std::vector<std::string> messages(2);
  unisono::test::ThreadRanks ranks(2);
  ranks.run([&](int rank) {
    const unisono::data::NodeShare share = ranks.share(rank);
    try {
      unisono::data::open_dataset(settings, 1, share);
    } catch (const unisono::Error& error) {
      messages[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  for (const std::string& message : messages) CHECK_THAT(message, Contains("was changed or damaged"));
}

TEST_CASE("a set that was opened to write has no seal any more, and is read as it is", "[seal]") {
  const unisono::test::TempDir folder;
  const std::string path = folder / "a.h5";
  {
    unisono::data::SetWriter writer({.path = path});
    unisono::test::write_group<float>(writer.file(), "train", 10, {});
    writer.finish();
  }
  const auto with_seal = std::filesystem::file_size(path);
  unisono::data::hdf5::File(path, unisono::data::hdf5::File::Mode::update)
      .write_attribute("", "classes", std::int64_t{5});
  CHECK(std::filesystem::file_size(path) != with_seal);
  unisono::data::DataSettings settings;
  settings.path = path;
  CHECK(unisono::data::inspect_dataset(settings).classes == 5);
}
