#include <zlib.h>

#include <catch2/catch.hpp>

#include "import/read_text.hpp"
#include "sets.hpp"
#include "unisono/data/import.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::TempDir;
using Texts = std::vector<std::string>;
using WordNumbers = std::vector<std::int32_t>;
using Offsets = std::vector<std::uint64_t>;

namespace {

struct ImportedText {
  unisono::data::TextSummary summary;
  WordNumbers words, test_words;
  Offsets sentences;
  Texts dictionary;
  std::vector<std::int64_t> counts;
};

ImportedText read_imported_text(const std::string& path, const unisono::data::TextSummary& summary) {
  const unisono::data::hdf5::File file(path, unisono::data::hdf5::File::Mode::read);
  ImportedText imported;
  imported.summary = summary;
  imported.words = file.read<std::int32_t>("train/words");
  imported.sentences = file.read<std::uint64_t>("train/sentences");
  if (file.exists("test/words")) imported.test_words = file.read<std::int32_t>("test/words");
  imported.dictionary = file.read_strings("dictionary/words");
  imported.counts = file.read<std::int64_t>("dictionary/counts");
  return imported;
}

ImportedText import_words(const std::string& text, const unisono::data::TextOptions& options) {
  const TempDir folder;
  unisono::test::write_file(folder / "t.txt", text);
  return read_imported_text(folder / "a.h5",
                            unisono::data::import_text({folder / "t.txt"}, options, {.path = folder / "a.h5"}));
}

template <typename Thrown = unisono::DataError>
std::string text_refusal(const std::string& text, const unisono::data::TextOptions& options) {
  return unisono::test::message_of<Thrown>([&] { import_words(text, options); });
}

}  // namespace

TEST_CASE("words are numbered by their frequency, then by their bytes; lines are sentences", "[text]") {
  const auto set = import_words("c a b\n\na c a\nzwölf\n", {.minimum_count = 1});
  CHECK(set.dictionary == Texts{"a", "c", "b", "zwölf"});
  CHECK(set.counts == std::vector<std::int64_t>{3, 2, 1, 1});
  CHECK(set.words == WordNumbers{1, 0, 2, 0, 1, 0, 3});
  CHECK(set.sentences == Offsets{0, 3, 6, 7});
  CHECK((set.summary.in_all == 7 && set.summary.distinct == 4 && set.summary.train_sentences == 3));
}

TEST_CASE("rare words are dropped, and sentences that they leave empty", "[text]") {
  const auto set = import_words("a x b\ny\na b z a\n", {.minimum_count = 2});
  CHECK(set.dictionary == Texts{"a", "b"});
  CHECK(set.words == WordNumbers{0, 1, 0, 1, 0});
  CHECK(set.sentences == Offsets{0, 2, 5});
  const auto few = import_words("a x b\ny\na b z a\n", {.minimum_count = 1, .maximum_words = 1});
  CHECK(few.words == WordNumbers{0, 0, 0});
  CHECK(few.sentences == Offsets{0, 1, 3});
  CHECK_THAT(text_refusal("a b c", {.minimum_count = 2}), Contains("t.txt: none of its 3 words occurs 2 times"));
  CHECK_THAT(text_refusal(" \n", {.minimum_count = 1}), Contains("t.txt: has no words"));
}

TEST_CASE("long sentences are cut by the words that are kept, as word2vec does", "[text]") {
  const auto set = import_words("a x a a a y a\na a\n", {.minimum_count = 2, .sentence_length = 2});
  CHECK(set.sentences == Offsets{0, 2, 4, 5, 7});
}

TEST_CASE("letters are made small where that is asked for", "[text]") {
  const auto bare = import_words("“Well, don't!” -- she said… (well-known) «ja» 3.5, \u3002 ¿que? (C++)",
                                 {.minimum_count = 1, .lowercase = true, .strip_punctuation = true});
  CHECK(bare.dictionary == Texts{"3.5", "c++", "don't", "ja", "que", "said", "she", "well", "well-known"});
  CHECK((bare.words.size() == 9 && bare.summary.in_all == 9));
  CHECK(import_words("a, a", {.minimum_count = 1}).dictionary == Texts{"a", "a,"});
  CHECK(import_words("Über über A a", {.minimum_count = 2, .lowercase = true}).dictionary == Texts{"a", "über"});
  CHECK(import_words("Über über A a a", {.minimum_count = 2}).dictionary == Texts{"a"});
}

TEST_CASE("test sentences are chosen at random, and do not count", "[text]") {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "w" + std::to_string(i % 10) + " all\n";
  const auto set = import_words(text, {.minimum_count = 1, .test_fraction = 0.25});
  CHECK((set.summary.train_sentences == 75 && set.summary.test_sentences == 25));
  CHECK((set.words.size() == 150 && set.test_words.size() == 50));
  std::vector<std::int64_t> counts(set.dictionary.size());
  for (const std::int32_t word : set.words) ++counts[static_cast<std::size_t>(word)];
  CHECK(counts == set.counts);
  CHECK(std::is_sorted(counts.rbegin(), counts.rend()));
  CHECK(import_words(text, {.minimum_count = 1, .test_fraction = 0.25}).test_words == set.test_words);
  CHECK(import_words(text, {.minimum_count = 1, .test_fraction = 0.25, .seed = 2}).test_words != set.test_words);
}

TEST_CASE("files of a folder come in alphabetical order, packed or not, and end sentences", "[text]") {
  const TempDir folder;
  std::filesystem::create_directories(folder / "texts/b");
  unisono::test::write_file(folder / "texts/c", "b");
  unisono::test::write_file(folder / "texts/b/a", "b b");
  gzFile packed = gzopen((folder / "texts/a.gz").c_str(), "wb");
  gzputs(packed, "a b");
  gzclose(packed);
  CHECK(unisono::data::list_files({folder / "texts"}) ==
        Texts{folder / "texts/a.gz", folder / "texts/b/a", folder / "texts/c"});
  const auto set = read_imported_text(
      folder / "a.h5", unisono::data::import_text({folder / "texts"}, {.minimum_count = 1}, {.path = folder / "a.h5"}));
  CHECK(set.words == WordNumbers{1, 0, 0, 0, 0});
  CHECK(set.sentences == Offsets{0, 2, 4, 5});
  std::filesystem::create_directories(folder / "empty");
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::list_files({folder / "empty"}); }),
             Contains("has no files"));
}

TEST_CASE("a text that is none, and options that make no sense, are refused", "[text]") {
  CHECK_THAT(text_refusal("a\nb caf\xE9", {}), Contains("t.txt:2:6: the byte 0xE9"));
  CHECK_THAT(text_refusal<unisono::ConfigError>("a", {.minimum_count = 0}), Contains("--minimum-count 0"));
  CHECK_THAT(text_refusal<unisono::ConfigError>("a", {.sentence_length = 0}), Contains("--sentence-length 0"));
  CHECK_THAT(text_refusal<unisono::ConfigError>("a", {.test_fraction = 1}),
             Contains("a fraction of 1 of the sentences"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>(
                 [] { unisono::data::import_text({"/none.txt"}, {}, {.path = "/tmp/none.h5"}); }),
             Contains("/none.txt: there is no such file"));
}

TEST_CASE("the first 100 MB of a Wikipedia are counted right", "[text][data]") {
  const char* root = std::getenv("UNISONO_DATA");
  if (root == nullptr) {
    WARN("skipped: UNISONO_DATA does not name a folder with wiki8/wiki8.gz");
    return;
  }
  const TempDir folder;
  const auto made = unisono::data::import_text({std::string(root) + "/wiki8/wiki8.gz"}, {}, {.path = folder / "a.h5"});
  CHECK((made.in_all == 16939998 && made.distinct == 219470 && made.vocabulary == 67903));  // as wiki8's source says
  const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
  CHECK(file.read_strings("dictionary/words", 0, 3) == Texts{"the", "of", "and"});
}
