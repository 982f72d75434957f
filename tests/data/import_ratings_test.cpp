#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>

#include "import/rating_line.hpp"
#include "sets.hpp"
#include "unisono/data/import.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::TempDir;
using Texts = std::vector<std::string>;

namespace {

Texts split_rating_fields(const std::string& text, const std::string& delimiter) {
  unisono::data::RatingFields fields;
  unisono::data::split_rating(text, delimiter, fields);
  return {fields.values.begin(), fields.values.end()};
}

unisono::data::RatingsDialect dialect(const std::string& text, const std::string& delimiter = "auto",
                                      unisono::data::Header header = unisono::data::Header::automatic) {
  return unisono::data::detect_ratings(
      [&] { return std::make_unique<unisono::data::LineReader>(unisono::data::bytes_of(text, "f")); },
      {.form = {.delimiter = delimiter}, .header = header});
}

struct RatingGroup {
  std::vector<std::uint32_t> users, items;
  std::vector<float> ratings;
};

struct ImportedRatings {
  unisono::data::RatingsSummary summary;
  RatingGroup train, validation, test;
  Texts users, items;
  std::string times;  ///< their type; empty: there are none
};

RatingGroup read_rating_group(const unisono::data::hdf5::File& file, const std::string& name) {
  if (!file.exists(name)) return {};
  return {file.read<std::uint32_t>(name + "/users"), file.read<std::uint32_t>(name + "/items"),
          file.read<float>(name + "/ratings")};
}

ImportedRatings import_entries(const std::string& text, unisono::data::RatingsOptions options = {},
                               const std::string& test_text = "") {
  const TempDir folder;
  unisono::test::write_file(folder / "r.txt", text);
  if (!test_text.empty()) {
    unisono::test::write_file(folder / "s.txt", test_text);
    options.test_file = folder / "s.txt";
  }
  ImportedRatings imported;
  imported.summary = unisono::data::import_ratings({folder / "r.txt"}, options, {.path = folder / "a.h5"});
  const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
  imported.train = read_rating_group(file, "train");
  imported.validation = read_rating_group(file, "validation");
  imported.test = read_rating_group(file, "test");
  imported.users = file.read_strings("dictionary/users");
  imported.items = file.read_strings("dictionary/items");
  if (file.exists("train/times")) imported.times = unisono::data::hdf5::name_of(file.shape("train/times").type);
  return imported;
}

template <typename Thrown = unisono::DataError>
std::string ratings_refusal(const std::string& text, const unisono::data::RatingsOptions& options = {},
                            const std::string& test_text = "") {
  return unisono::test::message_of<Thrown>([&] { import_entries(text, options, test_text); });
}

}  // namespace

TEST_CASE("lines of ratings are cut at their delimiter", "[ratings]") {
  CHECK(split_rating_fields("1::2::5::978300760", "::") == Texts{"1", "2", "5", "978300760"});
  CHECK(split_rating_fields("  a \t b\t 3 ", " ") == Texts{"a", "b", "3"});
  CHECK(split_rating_fields("big sur\tthe film\t3", "\t") == Texts{"big sur", "the film", "3"});
  CHECK(split_rating_fields("a,,3", ",") == Texts{"a", "", "3"});
  CHECK(split_rating_fields("a,b,3,4,5,6,7", ",").size() == 7);
  CHECK(split_rating_fields("\"1\", \"Heat, The\" ,\"say \"\"hi\"\"\"", ",") == Texts{"1", "Heat, The", "say \"hi\""});
  CHECK(split_rating_fields("\"a b\"  \"\" 3", " ") == Texts{"a b", "", "3"});
  // Quotes that are no field's are characters.
  CHECK(split_rating_fields("\"Weird Al\" Y;12\" disc;\"open", ";") == Texts{"\"Weird Al\" Y", "12\" disc", "\"open"});
}

TEST_CASE("delimiter and names on top are found", "[ratings]") {
  CHECK(dialect("1::2::3::4\n").delimiter == "::");
  CHECK(dialect("1::2::3::4\n").fields == 4);
  CHECK(dialect("big sur\tthe film\t3\n").delimiter == "\t");
  CHECK(dialect("u,i,r\n1,2,3\n").delimiter == ",");
  CHECK(dialect("1;2;3\n").delimiter == ";");
  CHECK(dialect("61 7 4.0\n").delimiter == " ");
  CHECK(dialect("userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n").header);
  CHECK(dialect("user item stars\nann x 3\nbob y 4\n").header);
  CHECK_FALSE(dialect("1 2 x\n1 2 3\n").header);  // two numbers in it: no names, but a mistake
  CHECK_FALSE(dialect("ann x 3\n").header);
  CHECK_FALSE(dialect("user,item,r\n1,2,3\n", "auto", unisono::data::Header::no).header);
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([] { dialect("1 2\n3 4\n"); }),
             Contains("f: no delimiter found: neither '::' nor tabs"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([] { dialect("\n"); }), Contains("f: is empty"));
  CHECK_THAT(unisono::test::message_of<unisono::ConfigError>([] { dialect("1 2 3\n", ":::"); }),
             Contains("--delimiter ':::'"));
}

TEST_CASE("columns are found by names that most data sets use", "[ratings]") {
  const auto columns = [](const std::string& header, const std::string& line) {
    const unisono::data::RatingsDialect found = dialect(header + "\n" + line + "\n" + line + "\n");
    return std::vector<std::size_t>(found.columns.begin(), found.columns.begin() + static_cast<int>(found.fields));
  };
  using Places = std::vector<std::size_t>;
  CHECK(columns("userId,movieId,rating,timestamp", "1,31,2.5,1260759144") == Places{0, 1, 2, 3});
  CHECK(columns(",userId,movieId,rating", "0,1,31,2.5") == Places{1, 2, 3});
  CHECK(columns("userId,movieId,timestamp,rating", "1,31,1260759144,2.5") == Places{0, 1, 3, 2});
  CHECK(columns("item_id\tUser ID\tStars", "31\t1\t2.5") == Places{1, 0, 2});
  CHECK(columns("\"user\",\"title\",\"isbn\",\"score\",\"age\"", "\"1\",\"a, b\",\"31\",\"2.5\",\"9\"") ==
        Places{0, 2, 3});
  CHECK(columns("ISBN;User-ID;Book-Rating", "0195153448;276725;8") == Places{1, 0, 2});
  CHECK(columns("who,what,how", "1,31,2.5") == Places{0, 1, 2});
  CHECK_THAT(
      unisono::test::message_of<unisono::DataError>([&] { columns("item,who,rating", "31,1,2.5"); }),
      Contains("f: column 1 is named 'item', but without names for all of user, item and rating, column 1 would be "
               "the user; set --columns"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { columns("user,artist,track,plays", "1,2,3,4"); }),
             Contains("column 3 is named 'track'"));
}

TEST_CASE("ratings are those of the named columns", "[ratings]") {
  const std::string text = ",userId,movieId,rating\n0,7,31,2.5\n1,7,32,4\n2,9,31,1\n";
  const auto set = import_entries(text);
  CHECK(set.users == Texts{"7", "9"});
  CHECK(set.items == Texts{"31", "32"});
  CHECK(set.train.ratings == std::vector<float>{2.5, 4, 1});
  CHECK(set.times.empty());
  CHECK(set.summary.columns == "user: userId, item: movieId, rating: rating");
  const auto chosen = import_entries(text, {.columns = "user=movieId,rating=4,item=userId,time=1"});
  CHECK(chosen.users == Texts{"31", "32"});
  CHECK(chosen.train.ratings == set.train.ratings);
  CHECK(chosen.times == "int64");
  CHECK(import_entries("9;1;8;2,5;x\n9;2;8;3;x\n", {.form = {.decimal = ","}, .columns = "user=2,item=1,rating=4"})
            .train.ratings == std::vector<float>{2.5, 3});
  for (const char* columns : {"user=userId", "user=userId,item=movieId,rating=nothing", "user=1,item=1,rating=2",
                              "user=1,user=2,item=1,rating=2", "who=1", "user=1,item=2,rating=5", "user"})
    CHECK_THAT(ratings_refusal<unisono::ConfigError>(text, {.columns = columns}), Contains("--columns"));
  // The test file's columns are its own.
  CHECK(import_entries(text, {}, "rating,item,user\n5,31,7\n").test.ratings == std::vector<float>{5});
  CHECK_THAT(ratings_refusal(text, {}, "1,2,3\n"), Contains("s.txt: has no names of columns"));
}

TEST_CASE("columns by their places that look like others are asked about", "[ratings]") {
  std::string swapped, counted;
  for (int i = 0; i < 12; ++i) {
    swapped += fmt::format("{},{},{},{}\n", i % 3, i % 4, 978300760 + i, i % 5);
    counted += fmt::format("{},{},{},{}\n", i, i % 3, i % 4, i % 5);
  }
  CHECK_THAT(ratings_refusal(swapped),
             Contains("the third column looks like times, the fourth like ratings; set --columns"));
  CHECK_THAT(ratings_refusal(counted), Contains("the first column counts the lines"));
  CHECK(import_entries(counted, {.columns = "user=2,item=3,rating=4"}).users == Texts{"0", "1", "2"});
}

TEST_CASE("a delimiter of ratings leaves numbers where ratings are", "[ratings]") {
  CHECK(dialect("1;2;3,5;100,0\n2;2;4,5;200,0\n").delimiter == ";");
  CHECK(dialect("1\tA, B and C, D\t3\n2\tE, F and G, H\t4\n").delimiter == "\t");
  CHECK(dialect("u1 a,b,c 3\nu2 a,b,c 4\n").delimiter == " ");
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([] { dialect("u,i,3,x;y;4;z\nu,i,3,x;y;4;z\n"); }),
             Contains("cannot tell whether ',' or ';' separates the columns; set --delimiter"));
  CHECK_THAT(ratings_refusal("1;2;3,5\n2;2;4,5\n"),
             Contains("column 3 (rating): '3,5' has a decimal comma; set --decimal ','"));
}

TEST_CASE("users and items are numbered as they come first", "[ratings]") {
  const auto set = import_entries("bob;heat;3\nann;zwölf;4.5\nbob;zwölf;1\n");
  CHECK(set.users == Texts{"bob", "ann"});
  CHECK(set.items == Texts{"heat", "zwölf"});
  CHECK(set.train.users == std::vector<std::uint32_t>{0, 1, 0});
  CHECK(set.train.items == std::vector<std::uint32_t>{0, 1, 1});
  CHECK(set.train.ratings == std::vector<float>{3, 4.5, 1});
  CHECK(set.times.empty());
  CHECK((set.summary.users == 2 && set.summary.items == 2 && set.summary.delimiter == ";"));
  CHECK(set.summary.header.empty());
}

TEST_CASE("times are whole numbers, or not", "[ratings]") {
  CHECK(import_entries("1 2 3 1112486027\n").times == "int64");
  CHECK(import_entries("1 2 3 1112486027.5\n").times == "float64");
}

TEST_CASE("the test file's users and items follow the training files'", "[ratings]") {
  const auto set = import_entries("u,i,r\n1,2,3\n", {}, "u,i,r\n9,2,5\n");
  CHECK(set.summary.header == "u,i,r");
  CHECK(set.users == Texts{"1", "9"});
  CHECK(set.test.users == std::vector<std::uint32_t>{1});
  CHECK_THAT(ratings_refusal("1,2,3\n", {}, "1,2,3,4\n"), Contains("s.txt:1: the lines have 4 fields, but those"));
}

TEST_CASE("each user's last rating is left out, by time or by line", "[ratings]") {
  // ann rates a (at 5), b (at 9), c (at 7); bob rates only a; carl rates a and b at the same time.
  const std::string timed = "ann a 1 5\nann b 2 9\nbob a 3 1\nann c 4 7\ncarl a 5 2\ncarl b 6 2\n";
  const auto set = import_entries(timed, {.split = RatingSplit::leave_one_out});
  CHECK(set.test.ratings == std::vector<float>{2, 6});
  CHECK(set.train.ratings == std::vector<float>{1, 3, 4, 5});
  const auto untimed = import_entries("ann a 1\nann b 2\nbob a 3\nann c 4\n", {.split = RatingSplit::leave_one_out});
  CHECK(untimed.test.ratings == std::vector<float>{4});
  const auto both =
      import_entries(timed, {.split = RatingSplit::leave_one_out, .validation_fraction = 0.25});  // of the four others
  CHECK((both.train.ratings.size() == 3 && both.validation.ratings.size() == 1));
}

TEST_CASE("the latest ratings are left out, those of one time by their lines", "[ratings]") {
  const std::string text = "u a 0 5\nu b 1 7\nu c 2 7\nu d 3 1\nu e 4 7\nu f 5 9\n";
  const auto set =
      import_entries(text, {.split = RatingSplit::time, .validation_fraction = 1.0 / 6, .test_fraction = 2.0 / 6});
  // By time: d a b c e f; the last two are for testing, the one before them for validation.
  CHECK(set.train.ratings == std::vector<float>{0, 1, 3});
  CHECK(set.validation.ratings == std::vector<float>{2});
  CHECK(set.test.ratings == std::vector<float>{4, 5});
  CHECK_THAT(ratings_refusal("u a 1\n", {.split = RatingSplit::time, .test_fraction = 0.5}),
             Contains("r.txt: has no times"));
}

TEST_CASE("ratings are chosen at random, each for one group, alike for the same seed", "[ratings]") {
  std::string text;
  for (int i = 0; i < 100; ++i) text += fmt::format("u{} i{} {}\n", i % 7, i % 11, i);
  const unisono::data::RatingsOptions options{.validation_fraction = 0.2, .test_fraction = 0.1, .seed = 3};
  const auto set = import_entries(text, options);
  CHECK((set.train.ratings.size() == 70 && set.validation.ratings.size() == 20 && set.test.ratings.size() == 10));
  std::multiset<float> all(set.train.ratings.begin(), set.train.ratings.end());
  all.insert(set.validation.ratings.begin(), set.validation.ratings.end());
  all.insert(set.test.ratings.begin(), set.test.ratings.end());
  CHECK((all.size() == 100 && std::set<float>(all.begin(), all.end()).size() == 100));
  CHECK(import_entries(text, options).test.ratings == set.test.ratings);
  CHECK(import_entries(text, {.test_fraction = 0.1}).test.ratings != set.test.ratings);
}

TEST_CASE("what is wrong in a rating is named by line and column", "[ratings]") {
  const std::string good = "1,2,3\n1,2,3\n1,2,3\n";
  CHECK_THAT(ratings_refusal(good + "1,2\n"),
             Contains("r.txt:4:4: has 2 fields, but 3 are expected: user: column 1, item: column 2, rating: column 3"));
  CHECK_THAT(ratings_refusal(good + "1,2,3,4,5,6\n"), Contains("r.txt:4:7: has 6 fields"));
  CHECK_THAT(ratings_refusal(good + "1,2,x\n"), Contains("r.txt:4: column 3 (rating): 'x' is not a number"));
  CHECK_THAT(ratings_refusal(good + "1,2,nan\n"), Contains("r.txt:4: column 3 (rating)"));
  CHECK_THAT(ratings_refusal(good + "1,2,1e39\n"), Contains("r.txt:4: column 3 (rating)"));
  CHECK_THAT(ratings_refusal(good + ",2,3\n"), Contains("r.txt:4: column 1 (user): is empty"));
  CHECK_THAT(ratings_refusal(good + "1,caf\xE9,3\n"),
             Contains("r.txt:4: column 2 (item): the byte 0xE9 is not part of a UTF-8 character"));
  CHECK_THAT(ratings_refusal("1,2,3,4\n1,2,3,4\n1,2,3,today\n"),
             Contains("r.txt:3: column 4 (time): 'today' is not a number"));
  CHECK_THAT(ratings_refusal("user,item,rating\n", {.header = Header::yes}), Contains("r.txt: has no ratings"));
  CHECK_THAT(ratings_refusal<unisono::ConfigError>(good, {.split = RatingSplit::none, .test_fraction = 0.1}),
             Contains("--split none"));
  CHECK_THAT(ratings_refusal<unisono::ConfigError>(good, {.split = RatingSplit::leave_one_out, .test_fraction = 0.1}),
             Contains("--test-fraction"));
}

TEST_CASE("LIBMF's demonstration is imported as it is", "[ratings][data]") {
  const char* root = std::getenv("UNISONO_DATA");
  if (root == nullptr) {
    WARN("skipped: UNISONO_DATA does not name a folder with libmf-demo/real_matrix.tr.txt");
    return;
  }
  const TempDir folder;
  const std::string data = std::string(root) + "/libmf-demo/real_matrix.";
  const auto demo =
      unisono::data::import_ratings({data + "tr.txt"}, {.test_file = data + "te.txt"}, {.path = folder / "a.h5"});
  CHECK((demo.train == 5000 && demo.test == 794 && !demo.times));
}
