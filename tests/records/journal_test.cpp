#include "unisono/records/journal.hpp"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "scratch_folder.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::records {
namespace {

using testing::bytes_of;
using testing::ScratchFolder;

void write_three_entries(const std::string& path) {
  Journal journal(path);
  for (int i = 0; i < 3; ++i) journal.append({{"number", i}, {"text", "two\nlines, \"quoted\""}});
}

TEST_CASE("a journal gives back what was appended, also after it was opened anew", "[journal]") {
  const ScratchFolder folder;
  write_three_entries(folder.path("journal"));
  Journal journal(folder.path("journal"));
  REQUIRE(journal.entries().size() == 3);
  CHECK(journal.entries()[2] == nlohmann::json{{"number", 2}, {"text", "two\nlines, \"quoted\""}});
}

TEST_CASE("wherever a journal is cut off, the whole lines before are kept and it goes on behind them", "[journal]") {
  const ScratchFolder folder;
  write_three_entries(folder.path("whole"));
  const std::string whole = bytes_of(folder.path("whole"));
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const std::string path = folder.file("cut", whole.substr(0, length));
    const auto lines = std::count(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length), '\n');
    {
      Journal journal(path);
      REQUIRE(std::ssize(journal.entries()) == lines);
      journal.append({{"number", 9}});
    }
    const Journal again(path);
    REQUIRE(std::ssize(again.entries()) == lines + 1);
    REQUIRE(again.entries().back() == nlohmann::json{{"number", 9}});
  }
}

TEST_CASE("a changed byte in a whole line is found", "[journal]") {
  const ScratchFolder folder;
  write_three_entries(folder.path("whole"));
  const std::string whole = bytes_of(folder.path("whole"));
  for (std::size_t at = 0; at < whole.size(); ++at) {
    if (whole[at] == '\n') continue;
    std::string changed = whole;
    changed[at] = changed[at] == 'x' ? 'y' : 'x';
    const std::string path = folder.file("changed", changed);
    REQUIRE_THROWS_AS(Journal(path), CheckpointError);
  }
}

TEST_CASE("a line that is missing, or in another place, is found", "[journal]") {
  const ScratchFolder folder;
  write_three_entries(folder.path("whole"));
  const std::string whole = bytes_of(folder.path("whole"));
  const std::size_t second = whole.find('\n') + 1, third = whole.find('\n', second) + 1;
  const std::string a = whole.substr(0, second), b = whole.substr(second, third - second), c = whole.substr(third);
  for (const std::string& changed : {b + c, a + c, a + c + b, b + a + c, a + b + b + c}) {
    const std::string path = folder.file("changed", changed);
    CHECK_THROWS_AS(Journal(path), CheckpointError);
  }
}

TEST_CASE("a journal that begins anew has no lines, whatever was in it", "[journal]") {
  const ScratchFolder folder;
  const std::string path = folder.file("damaged", "something else\n");
  {
    Journal journal(path, /*anew=*/true);
    CHECK(journal.entries().empty());
    journal.append({{"number", 7}});
  }
  CHECK(Journal(path).entries().size() == 1);
}

TEST_CASE("a journal that is being written cannot be opened by another", "[journal]") {
  const ScratchFolder folder;
  const Journal journal(folder.path("journal"));
  CHECK_THROWS_WITH(Journal(folder.path("journal")), Catch::Contains("another process is writing it"));
}

}  // namespace
}  // namespace unisono::records
