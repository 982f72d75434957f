#include "import/read_text.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "sets.hpp"
#include "unisono/base/random.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::TempDir;
using WordLists = std::vector<std::vector<std::int32_t>>;

namespace {

/// Some MB of words, of which there are 5000. \param line how many of them a line has; 0: there is one line
std::string drawn_text(std::size_t bytes, int line, std::uint64_t seed) {
  unisono::RandomStream random(seed, unisono::Purpose::test);
  std::string text;
  for (int i = 1; text.size() < bytes; ++i) {
    text += "wört" + std::to_string(random.below(5000)) + (line > 0 && i % line == 0 ? "\n" : i % 3 == 0 ? "\t" : "  ");
  }
  return text;
}

WordLists sentences_of(ReadText& text) {
  std::vector<std::int32_t> all(text.words.size());
  std::iota(all.begin(), all.end(), 0);
  WordLists sentences;
  for_each_sentence(text, all, 700,
                    [&](std::span<const std::int32_t> words) { sentences.emplace_back(words.begin(), words.end()); });
  return sentences;
}

}  // namespace

TEST_CASE("threads find the same words, counts and sentences of a text as one thread", "[text]") {
  const TempDir folder;
  unisono::test::write_file(folder / "a.txt", "\xEF\xBB\xBF" + drawn_text(3 << 20, 0, 1));
  unisono::test::write_file(folder / "b.txt", drawn_text(2 << 20, 11, 2) + "no end of a line");
  unisono::test::write_file(folder / "c.txt", "");
  unisono::test::write_file(folder / "d.txt", "a small one");
  const std::vector<std::string> files = {folder / "a.txt", folder / "b.txt", folder / "c.txt", folder / "d.txt"};
  ReadText one = read_text(files, {}, folder / "set.h5", 1);
  const WordLists sentences = sentences_of(one);
  CHECK(one.parts.size() == 1);
  CHECK(one.length == std::accumulate(one.counts.begin(), one.counts.end(), std::int64_t{0}));
  for (const int threads : {2, 3, 64}) {
    ReadText many = read_text(files, {}, folder / "set.h5", threads);
    CHECK((many.parts.size() > 1 && many.parts.size() <= static_cast<std::size_t>(threads)));
    CHECK(many.words.strings() == one.words.strings());
    CHECK(many.counts == one.counts);
    CHECK(many.length == one.length);
    CHECK(sentences_of(many) == sentences);
  }
}

TEST_CASE("a mistake in a text is named by file, line and byte, on any number of threads", "[text]") {
  const TempDir folder;
  const std::string good = drawn_text(2 << 20, 10, 1);
  const auto lines = std::count(good.begin(), good.end(), '\n');
  unisono::test::write_file(folder / "t.txt", good.substr(0, good.rfind('\n') + 1) + "ab \xFF" + good + " \xFE");
  for (const int threads : {1, 2, 4}) {
    CHECK_THAT(unisono::test::message_of<unisono::DataError>(
                   [&] { read_text({folder / "t.txt"}, {}, folder / "set.h5", threads); }),
               Contains("t.txt:" + std::to_string(lines + 1) + ":4: the byte 0xFF"));
  }
}

TEST_CASE("a file that changes while it is read is refused", "[text]") {
  const TempDir folder;
  const std::string path = folder / "t.txt", text = drawn_text(1 << 20, 10, 1);
  const auto refusal = [](const auto& act) { return unisono::test::message_of<unisono::DataError>(act); };
  const auto read_on = [](ByteSource& source) {
    for (std::vector<char> buffer(1 << 16); source.read(buffer) == buffer.size();) {
    }
  };
  const std::string grown = text + "and more";
  for (const std::string& changed : {text.substr(0, text.size() / 2), grown}) {
    unisono::test::write_file(path, text);
    const auto source = open_bytes(path);
    std::vector<char> beginning(1 << 10);
    CHECK(source->read(beginning) == beginning.size());
    unisono::test::write_file(path, changed);
    CHECK_THAT(refusal([&] { read_on(*source); }), Contains("t.txt: was changed while it was being read"));
    read_on(*open_bytes(path));
  }
  const OpenText open = text_of(path);  // as importers do that read a file twice
  open();
  unisono::test::write_file(path, text);
  CHECK_THAT(refusal([&] { open(); }), Contains("was changed"));
}
