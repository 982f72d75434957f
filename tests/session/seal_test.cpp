#include "unisono/base/raw_file.hpp"

#include <catch2/catch.hpp>
#include <expect.hpp>
#include <filesystem>
#include <fstream>

#include "checkpoint/checkpoint_store.hpp"
#include "sample_checkpoint.hpp"
#include "scratch_folder.hpp"

namespace unisono::session {
namespace {

using Catch::Matchers::Contains;
using testing::ScratchFolder;

constexpr std::uint64_t kSegment = 64 << 20;

/// Two segments and a part of a third one, mostly a hole, sealed by so many ranks.
std::string sealed_file(const ScratchFolder& folder, int ranks) {
  const std::string path = folder.file("a", "first");
  std::filesystem::resize_file(path, 2 * kSegment + 1000);
  append_open_trailer(path, 1);
  comm::run_as_threads(ranks, [&](comm::Communicator& world) {
    const auto hashes = gather_hashes(world, hash_segments(path, world.rank(), ranks), ranks);
    EXPECT(hashes.size() == (world.is_root() ? 3U : 0U));
    if (world.is_root()) seal_file(path, hashes);
  });
  return path;
}

void flip(const std::string& path, std::uint64_t at) {
  RawFile file(path, RawFile::Mode::update);
  std::byte byte{};
  file.read(at, {&byte, 1});
  byte ^= std::byte{1};
  file.write(at, {&byte, 1});
}

std::string damage_found_by(int ranks, const std::string& path) {
  std::string damage;
  comm::run_as_threads(ranks, [&](comm::Communicator& world) {
    const std::string found = broken_seal(world, path, ranks);
    if (world.is_root()) damage = found;
  });
  return damage;
}

TEST_CASE("a sealed file is copied with its seal, and a damaged one is not", "[seal]") {
  const ScratchFolder folder;
  const testing::SampleModel model;
  testing::write_sample(folder.path("a.h5"), model);
  const auto always = [] { return true; };
  CHECK(copy_sealed(folder.path("a.h5"), folder.path("b.h5"), always));
  CHECK(testing::bytes_of(folder.path("a.h5")) == testing::bytes_of(folder.path("b.h5")));
  CHECK_FALSE(copy_sealed(folder.path("a.h5"), folder.path("c.h5"), [] { return false; }));
  CHECK_FALSE(missing_seal(folder.path("c.h5")).empty());
  std::string bytes = testing::bytes_of(folder.path("a.h5"));
  bytes[bytes.size() / 3] = static_cast<char>(bytes[bytes.size() / 3] ^ 4);
  CHECK_THROWS_AS(copy_sealed(folder.file("d.h5", bytes), folder.path("b.h5"), always), DataError);
  CHECK_THROWS_AS(copy_sealed(folder.file("d.h5", bytes.substr(9)), folder.path("b.h5"), always), DataError);
  CHECK_THROWS_AS(copy_sealed(folder.path("a.h5"), folder.path("no/b.h5"), always), OutputError);
}

TEST_CASE("what some ranks seal, others find whole, and damage in any segment", "[seal]") {
  const ScratchFolder folder;
  const std::string path = sealed_file(folder, 2);
  for (const int ranks : {1, 3, 4}) CHECK(damage_found_by(ranks, path).empty());
  for (const std::uint64_t at : {std::uint64_t{3}, kSegment, 2 * kSegment + 999, 2 * kSegment + 1020}) {
    flip(path, at);
    CHECK_THAT(damage_found_by(2, path), Contains(path + " is damaged"));
    flip(path, at);
  }
  CHECK(damage_found_by(1, path).empty());
}

TEST_CASE("a file that was not sealed is none that is whole", "[seal]") {
  const ScratchFolder folder;
  const std::string path = folder.file("a", "content");
  append_open_trailer(path, 7);
  CHECK_THAT(missing_seal(path), Contains("its checksum is missing"));
  CHECK_THAT(missing_seal(folder.file("short", "x")), Contains("is truncated"));
  CHECK_THAT(missing_seal(folder.path("none")), Contains("No such file"));
  seal_file(path, hash_segments(path, 0, 1));
  CHECK(missing_seal(path).empty());
  CHECK(fits_seal(path, hash_segments(path, 0, 1)));
}

TEST_CASE("ranks know one file by its size and its end", "[seal]") {
  const ScratchFolder folder, other;
  const auto seen = [&](bool everywhere) {
    bool all = false;
    comm::run_as_threads(2, [&](comm::Communicator& world) {
      const bool found = all_see(world, (world.is_root() || everywhere ? folder : other).path("a"));
      if (world.is_root()) all = found;
    });
    return all;
  };
  for (const ScratchFolder* at : {&folder, &other})
    append_open_trailer(at->file("a", "content"), at == &folder ? 1 : 2);
  CHECK(seen(true));
  CHECK_FALSE(seen(false));
  std::filesystem::copy_file(folder.path("a"), other.path("a"), std::filesystem::copy_options::overwrite_existing);
  CHECK(seen(false));
  std::filesystem::remove(folder.path("a"));
  CHECK_FALSE(seen(true));
}

}  // namespace
}  // namespace unisono::session
