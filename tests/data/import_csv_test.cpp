#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <numeric>

#include "import/csv_columns.hpp"
#include "import/csv_dialect.hpp"
#include "recipe/recipe_file.hpp"
#include "sets.hpp"
#include "unisono/data/import.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::TempDir;
using Texts = std::vector<std::string>;

namespace {

Texts split_csv_fields(const std::string& text, char delimiter) {
  const unisono::data::LineReader line(unisono::data::bytes_of("", "f"));
  Texts fields;
  unisono::data::split_line(line, text, delimiter, fields);
  return fields;
}

unisono::data::OpenText table_of(const std::string& text) {
  return [text_of = std::make_shared<std::string>(text)] {
    return std::make_unique<unisono::data::LineReader>(unisono::data::bytes_of(*text_of, "f"));
  };
}

struct ImportedTable {
  unisono::data::ImportSummary summary;
  std::vector<float> features, targets;
  std::vector<std::int64_t> labels;
  Texts class_names;
  unisono::data::Recipe recipe;
};

/// The training group of a table's set.
ImportedTable import_table(const std::string& text, const unisono::data::CsvOptions& options) {
  const TempDir folder;
  unisono::test::write_file(folder / "t.csv", text);
  ImportedTable imported;
  imported.summary = unisono::data::import_csv(folder / "t.csv", options, {.path = folder / "a.h5"});
  const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
  imported.features = file.read<float>("train/features");
  imported.recipe = unisono::data::read_recipe(file);
  if (file.exists("train/labels")) imported.labels = file.read<std::int64_t>("train/labels");
  if (file.exists("train/targets")) imported.targets = file.read<float>("train/targets");
  if (file.has_attribute("", "class_names")) imported.class_names = file.read_attribute<Texts>("", "class_names");
  return imported;
}

template <typename Thrown = unisono::DataError>
std::string csv_refusal(const std::string& text, const unisono::data::CsvOptions& options = {}) {
  return unisono::test::message_of<Thrown>([&] { import_table(text, options); });
}

}  // namespace

TEST_CASE("a line is cut at its delimiters, outside of quotes", "[csv]") {
  CHECK(split_csv_fields("a,b,c", ',') == Texts{"a", "b", "c"});
  CHECK(split_csv_fields(" a , b ,", ',') == Texts{"a", "b", ""});
  CHECK(split_csv_fields("\"a,b\",\"say \"\"hi\"\"\"", ',') == Texts{"a,b", "say \"hi\""});
  CHECK(split_csv_fields("\"a\" ; b", ';') == Texts{"a", "b"});
  CHECK(split_csv_fields("a\t\tb", '\t') == Texts{"a", "", "b"});
  CHECK(split_csv_fields("  1   2 3  ", ' ') == Texts{"1", "2", "3"});
  CHECK(split_csv_fields(",", ',') == Texts{"", ""});
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([] { split_csv_fields("a,\"b", ','); }),
             Contains("column 2: a quote is opened"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([] { split_csv_fields("\"a\"b,c", ','); }),
             Contains("column 1: text follows"));
}

TEST_CASE("numbers are whole fields, and finite", "[csv]") {
  CHECK(unisono::data::parse_number("-1.5e3") == -1500);
  CHECK(unisono::data::parse_number("+2") == 2);
  for (const char* text : {"", "1x", "x", "inf", "nan", "1e999", "1,5", "--1"})
    CHECK_FALSE(unisono::data::parse_number(text));
  for (const char* text : {"", "?", "NA", "nan", "NULL", "n/a"}) CHECK(unisono::data::is_missing(text));
  CHECK_FALSE(unisono::data::is_missing("0"));
}

TEST_CASE("delimiter and header are found", "[csv]") {
  const auto dialect = [](const std::string& text) {
    return unisono::data::detect_dialect(table_of(text), {}, unisono::data::Header::automatic);
  };
  CHECK(dialect("a;b\n1;2,5\n").delimiter == ';');
  CHECK(dialect("a;b\n1;2,5\n").header);
  CHECK(dialect("1\t2\t3\n").delimiter == '\t');
  CHECK_FALSE(dialect("1\t2\t3\n").header);
  CHECK(dialect("1 2\n3  4\n").delimiter == ' ');
  CHECK(dialect("5.1,red\n4.9,blue\n").header == false);
  CHECK(dialect("\xEF\xBB\xBFx,colour\n4.9,blue\n").header);
  CHECK(dialect("7\n8\n").columns == 1);
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { dialect("red,big\nblue,small\n"); }),
             Contains("--header yes"));
  CHECK_FALSE(unisono::data::detect_dialect(table_of("red,big\nblue,small\n"), {}, unisono::data::Header::no).header);
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { dialect("\n \n"); }), Contains("f: is empty"));
  CHECK_THAT(unisono::test::message_of<unisono::ConfigError>(
                 [&] { unisono::data::detect_dialect(table_of("1"), {.delimiter = "::"}, unisono::data::Header::no); }),
             Contains("--delimiter"));
}

TEST_CASE("a delimiter that cuts all rows is taken before one that makes more columns", "[csv]") {
  const auto delimiter = [](const std::string& text) {
    return unisono::data::detect_dialect(table_of(text), {}, unisono::data::Header::no).delimiter;
  };
  const auto doubt = [&](const std::string& text) {
    return unisono::test::message_of<unisono::DataError>([&] { delimiter(text); });
  };
  // Blanks in dates, titles and texts.
  CHECK(delimiter("2024-01-01 10:00:00;3 red apples;1\n2024-01-02 11:00:00;4 big pears;2\n") == ';');
  CHECK(delimiter("0 the big red film,1990\n1 a very old play,1991\n") == ',');
  CHECK(delimiter("\"a b c, d\",1\n\"e f g, h\",2\n") == ',');
  CHECK(delimiter("1 2 3\n4  5 6\n7\t8 9\n") == ' ');
  // Decimal commas.
  CHECK(delimiter("0,10;0,0;0,5;0,25\n1,11;2,1;1,5;1,25\n") == ';');
  CHECK(delimiter("x;y\n0,10;0,0\n1,11;2,1\n") == ';');
  CHECK(delimiter("0,10\t0,0\n1,11\t2,1\n") == '\t');
  CHECK(delimiter("0,10 0 0,0\n1 11 2,1\n") == ' ');
  // A row of another length does not hide the delimiter of all others.
  CHECK(delimiter("a b,2\nc d e,3\ne f,3,4\n") == ',');
  // Either could be meant.
  CHECK_THAT(doubt("a\tb\tc,1\nd\te\tf,2\n"),
             Contains("f: cannot tell what separates the columns: ',' 2 columns (d\te\tf | 2), or tab 3 columns "
                      "(d | e | f,2); set --delimiter"));
  CHECK_THAT(doubt("a,b;c\nd,e;f\n"), Contains("',' 2 columns (d | e;f), or ';' 2 columns (d,e | f)"));
  CHECK_THAT(doubt("a b,2\nc d;3\ne f,3\n"), Contains("',' 2 columns") && Contains("blanks 2 columns"));
  CHECK_THAT(doubt("0,10 0,0\n1,11 2,1\n"), Contains("',' 3 columns (1 | 11 2 | 1), or blanks 2 columns (1,11 | 2,1)"));
  // As in auto-mpg.data of the UCI repository: blanks, and a tab before the last column.
  CHECK_THAT(doubt("18.0   8   307.0\t\"chevrolet\"\n15.0   8   350.0\t\"buick\"\n"),
             Contains("tab 2 columns") && Contains("blanks 4 columns"));
  CHECK(unisono::data::detect_dialect(table_of("18.0   8\t\"a\"\n15.0   8\t\"b c\"\n"), {.delimiter = " "},
                                      unisono::data::Header::no)
            .columns == 3);
  CHECK_THAT(doubt("w,y\n'a, b',1\n'c, d',2\n"),
             Contains("the first line has 2 fields, but all lines below it have 3"));
  CHECK_THAT(doubt("'a, b',1\n'c, d',2\n"), Contains("the single quotes of 'c … d' do not keep a delimiter"));
  CHECK(delimiter("'n sync,don't,1\n'a,b',2\nx,y,3\n") == ',');
  CHECK_THAT(doubt("Sales of 2024\na;b\n1;2\n"),
             Contains("with ';' the first line has 1 field, but all lines below it have 2"));
  CHECK_THAT(doubt("x y\n1 2 3\n2 3 4\n"), Contains("with blanks the first line has 2 fields"));
}

TEST_CASE("numbers in the first line are names where they are years beside words, or count the columns", "[csv]") {
  const auto header = [](const std::string& text) {
    return unisono::data::detect_dialect(table_of(text), {}, unisono::data::Header::automatic).header;
  };
  const auto doubt = [&](const std::string& text) {
    return unisono::test::message_of<unisono::DataError>([&] { header(text); });
  };
  CHECK(header("id,2019,2020,2021\n1,2,3,4\n2,5,6,7\n"));
  CHECK(header("id,2019\n1,2\n2,5\n"));
  CHECK_FALSE(header("5.1,3.5,1.4,0.2,setosa\n4.9,3.0,1.4,0.2,setosa\n7.0,3.2,4.7,1.4,versicolor\n"));
  CHECK_FALSE(header("1,2,3\n4,5,6\n1,4,2\n"));
  // A value that is missing does not make names of the others.
  CHECK_FALSE(header("5.1,-,1\n4.9,2,0\n"));
  CHECK_FALSE(header("5.1,unknown,1\n4.9,2,0\n"));
  CHECK_THAT(doubt("5.1,many,4,7\n4.9,2,0,3\n"), Contains("cannot tell whether the first line holds names or values"));
  CHECK_THAT(doubt("0,1,2\n0.5,3.5,1\n1.5,2.5,0\n"), Contains("--header yes"));
  CHECK_THAT(doubt("kind,400.5,401.2,402\na,0.1,0.2,0.3\nb,0.4,0.5,0.6\n"), Contains("--header yes"));
  CHECK_FALSE(header("1.5,2.5,3.5\n1.7,2.2,3.9\n1.2,2.9,1.1\n"));
  CHECK_THAT(doubt("country,1990,1991,1992\nA,0.1,0.2,0.3\nB,0.4,0.5,0.6\n"), Contains("--header yes"));
}

TEST_CASE("numbers may have decimal commas, and separators between their digits", "[csv]") {
  using unisono::data::plain_number;
  const unisono::data::TableForm german{.decimal = ",", .thousands = "."}, english{.thousands = ","},
      french{.decimal = ",", .thousands = "\u202F"}, swiss{.thousands = "'"}, comma{.decimal = ","};
  CHECK(plain_number("1.234.567,5", german) == "1234567.5");
  CHECK(plain_number("-1,5e3", german) == "-1.5e3");
  CHECK(plain_number(",5", german) == ".5");
  CHECK(plain_number("+12", german) == "+12");
  CHECK(plain_number("1,234,567.5", english) == "1234567.5");
  CHECK(plain_number("1\u202F234,5", french) == "1234.5");
  CHECK(plain_number("1'000", swiss) == "1000");
  CHECK(plain_number("1 000", {.thousands = "space"}) == "1000");
  CHECK(plain_number("1234567", english) == "1234567");
  for (const char* text : {"1.5", "1.23", "1234.567", "1.234.56", "", "-", "1,5,5", "1,5.3", "inf", ".234", "1.234,5x"})
    CHECK_FALSE(plain_number(text, german));
  CHECK_FALSE(plain_number("1.5", comma));
  CHECK_FALSE(plain_number("1,5", english));

  const auto set =
      import_table("x;w;y\n1.234,5;a,b;0,25\n-2;c;1,75\n", {.target = "y", .form = {.decimal = ",", .thousands = "."}});
  CHECK(set.features == std::vector<float>{1234.5, 0, -2, 1});
  CHECK(set.targets == std::vector<float>{0.25, 1.75});
  CHECK(set.recipe.form == german);
  CHECK(import_table("x,w\n\"1,000\",a\n5,b\n", {.form = {.thousands = ","}}).features ==
        std::vector<float>{1000, 0, 5, 1});
  CHECK_THAT(csv_refusal("x;y\n1,5;2\n1.5;2\n", {.form = {.decimal = ","}}),
             Contains("t.csv:3: column 'x': '1.5' is a number with a decimal point, but --decimal is ','"));
  for (const unisono::data::TableForm& form :
       {unisono::data::TableForm{.decimal = ";"}, {.thousands = "."}, {.thousands = "12"}, {.thousands = "7"}})
    CHECK_THAT(csv_refusal<unisono::ConfigError>("1;2\n", {.form = form}), Contains("it must be"));
}

TEST_CASE("numbers in a form that was not said are no categories", "[csv]") {
  const auto said = [](const std::string& value) { return csv_refusal("x;y\n" + value + ";2\n" + value + ";3\n"); };
  CHECK_THAT(said("1,000"),
             Contains("t.csv:2: column 'x': '1,000' may be 1000 or 1.000; set --thousands ',' or --decimal ','"));
  CHECK_THAT(said("1,5"), Contains("'1,5' has a decimal comma; set --decimal ','"));
  CHECK_THAT(said("1,250,000"), Contains("has ',' between its digits; set --thousands ','"));
  CHECK_THAT(said("1.250.000"), Contains("has '.' between its digits; set --thousands '.' --decimal ','"));
  CHECK_THAT(said("1.250,5"), Contains("set --thousands '.' --decimal ','"));
  CHECK_THAT(said("1 250"), Contains("set --thousands space"));
  CHECK_THAT(said("1'250"), Contains("set --thousands \"'\""));
  CHECK_THAT(said("\u22121.5"),
             Contains("has digits or signs of another alphabet; write it as -1.5, or name the column"));
  CHECK_THAT(said("\uFF11\uFF0E\uFF15"), Contains("write it as 1.5"));
  for (const char* value : {"$5.20", "-$5.20", "$1,250.00", "20%", "20 %", "5,20 €", "EUR 5", "(5.20)", "\u00A05"})
    CHECK_THAT(said(value),
               Contains("is a number with a unit; write the number alone, or name the column with --categorical"));
  // They are numbers below a line of names, too.
  CHECK_THAT(csv_refusal("price;kind\n1,5;a\n2,5;b\n"), Contains("t.csv:2: column 'price': '1,5' has a decimal comma"));
  CHECK_THAT(csv_refusal("price;kind\n$5;a\n$6;b\n"),
             Contains("t.csv:2: column 'price': '$5' is a number with a unit"));
  CHECK(import_table("x;y\n20%;2\n30%;3\n", {.categorical = {"x"}}).recipe.columns[0].levels == Texts{"20%", "30%"});
  CHECK(import_table("x;y\nA5;2\n10-20;3\n", {}).recipe.columns[0].levels == Texts{"10-20", "A5"});
}

TEST_CASE("lines are counted as an editor counts them, whatever ends them", "[csv]") {
  unisono::data::LineReader reader(unisono::data::bytes_of("a\r\n\n  \nb", "f"));
  std::string line;
  CHECK(reader.next(line));
  CHECK((line == "a" && reader.number() == 1));
  CHECK(reader.next(line));
  CHECK((line == "b" && reader.number() == 4));
  CHECK_FALSE(reader.next(line));
  const std::string long_line(600000, 'x');  // longer than the reader's buffer
  const std::string two_lines = long_line + "\ny";
  unisono::data::LineReader of_long(unisono::data::bytes_of(two_lines, "f"));
  CHECK(of_long.next(line));
  CHECK(line == long_line);
  CHECK(of_long.next(line));
  CHECK(line == "y");
  unisono::data::LineReader old(unisono::data::bytes_of("a\rb\r\rc\r\nd", "f"));
  for (const auto& [text, number] : {std::pair("a", 1), {"b", 2}, {"c", 4}, {"d", 5}}) {
    CHECK(old.next(line));
    CHECK((line == text && old.number() == number));
  }
  CHECK_FALSE(old.next(line));
  const std::string at_the_buffers_end = std::string((256 << 10) - 1, 'x') + "\r\ny";
  unisono::data::LineReader split(unisono::data::bytes_of(at_the_buffers_end, "f"));
  CHECK(split.next(line));
  CHECK(split.next(line));
  CHECK((line == "y" && split.number() == 2));
  const std::string zero("a\0b", 3);
  unisono::data::LineReader binary(unisono::data::bytes_of(zero, "f"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { binary.next(line); }), Contains("f:1:2: a zero byte"));
}

TEST_CASE("a table whose lines end with carriage returns has as many rows as one with newlines", "[csv]") {
  for (const std::string end : {"\n", "\r", "\r\n"}) {
    const auto set = import_table("x,y" + end + "1,2" + end + "3,4" + end + "5,6" + end, {});
    CHECK(set.features == std::vector<float>{1, 2, 3, 4, 5, 6});
    CHECK(set.summary.feature_names == Texts{"x", "y"});
  }
}

TEST_CASE("a quoted field may hold the ends of lines", "[csv]") {
  const auto set = import_table("\"x\nin m\",w\r\n1,\"a\r\nb\"\r\n\r\n2,\"say \"\"\n\n\"\"\"\r\n", {});
  CHECK(set.summary.feature_names == Texts{"x\nin m", "w"});
  CHECK(set.recipe.columns[1].levels == Texts{"a\nb", "say \"\n\n\""});
  CHECK(set.features == std::vector<float>{1, 0, 2, 1});
  // A quote inside of a field opens nothing, and a mistake is named by the line in which the row begins.
  CHECK(import_table("x,w\n1,5\" pipe\n2,\" a\nb\"\n", {}).features == std::vector<float>{1, 1, 2, 0});
  CHECK_THAT(csv_refusal("x,w\n1,\"a\nb\"\n2,b,\"\n\"\n"), Contains("t.csv:4: has 3 fields"));
  CHECK_THAT(csv_refusal("x,w\n1,a\n2,\"b\n3,c\n"), Contains("t.csv:3: column 2: a quote is opened but not closed"));
}

TEST_CASE("rows are read by any format: names on top, lines without a row, mistakes with their place", "[csv]") {
  std::string names;
  const unisono::data::RowFormat<int> format{
      .none = "numbers",
      .parse =
          [](const unisono::data::LineReader& line, const std::string& text, int& row) {
            if (text == "!") line.fail(1, "is no number");
            if (text != "#") row = std::stoi(text);
            return text != "#";
          },
      .names = [&](const unisono::data::LineReader&, const std::string& text) { names = text; }};
  std::vector<std::pair<std::int64_t, int>> rows;
  const auto read = [&](const std::string& text) {
    return unisono::data::read_rows(*table_of(text)(), format, [&](const unisono::data::LineReader& line, int row) {
      rows.emplace_back(line.number(), row);
    });
  };
  CHECK(read("n\n3\n\n#\n5\n") == 2);
  CHECK(names == "n");
  CHECK(rows == std::vector<std::pair<std::int64_t, int>>{{2, 3}, {5, 5}});
  CHECK(unisono::test::message_of<unisono::DataError>([&] { read("n\n#\n"); }) == "f: has no numbers");
  CHECK(unisono::test::message_of<unisono::DataError>([&] { read("n\n1\n!\n"); }) == "f:3:1: is no number");
}

TEST_CASE("a set of a table holds numbers and the numbers of levels, and a recipe that names both", "[csv]") {
  const auto set = import_table("size,colour,kind\n1.5,red,cat\n2,blue,dog\n-3,red,dog\n", {.label = "kind"});
  CHECK(set.summary.feature_names == Texts{"size", "colour"});
  CHECK(set.features == std::vector<float>{1.5, 1, 2, 0, -3, 1});
  CHECK(set.recipe.columns == std::vector<unisono::data::RecipeColumn>{
                                  {.name = "size"}, {"colour", unisono::data::ColumnKind::category, {"blue", "red"}}});
  CHECK(set.recipe.label == "kind");
  CHECK(set.recipe.header);
  CHECK(set.recipe.fields == 3);
  CHECK(set.labels == std::vector<std::int64_t>{0, 1, 1});
  CHECK(set.class_names == Texts{"cat", "dog"});
  CHECK(set.summary.classes == 2);
}

TEST_CASE("classes that are numbers come in their order, however they are written", "[csv]") {
  const auto set = import_table("x,y\n1,10\n2,9\n3,9.0\n", {.label = "-1"});
  CHECK(set.labels == std::vector<std::int64_t>{1, 0, 0});
  CHECK(set.class_names == Texts{"9", "10"});
}

TEST_CASE("many different numbers as labels are asked about", "[csv]") {
  const auto numbered = [](int labels, const std::string& more = "") {
    std::string text = "x,y\n";
    for (int i = 0; i < labels; ++i) text += fmt::format("{},{}\n", i * i % 7, i + 7);
    return text + more;
  };
  const auto asks = [](const std::string& text) { return csv_refusal<unisono::ConfigError>(text, {.label = "y"}); };
  CHECK(import_table(numbered(100), {.label = "y"}).class_names.size() == 100);
  CHECK_THAT(asks(numbered(101)), Contains("t.csv: column 'y': the labels are 101 different numbers: add --task "
                                           "regression to predict them as numbers, or --task classes for a class of"));
  CHECK_THAT(asks(numbered(1001)), Contains("the labels are more than 1000 different numbers"));
  CHECK(import_table(numbered(100, "1,7.0\n2,8.0\n"), {.label = "y"}).class_names.size() == 100);
  CHECK(import_table(numbered(101, "1,none\n"), {.label = "y"}).class_names.size() == 102);  // names
  CHECK(import_table(numbered(101), {.label = "y", .task = Task::classes}).class_names.size() == 101);
  CHECK(import_table(numbered(101), {.label = "y", .categorical = {"y"}}).class_names.size() == 101);
  const auto predicted = import_table(numbered(101), {.label = "y", .task = Task::regression});
  CHECK(predicted.targets.size() == 101);
  CHECK(predicted.recipe.target == "y");
  CHECK_THAT(csv_refusal<unisono::ConfigError>("x,y\n1,2\n", {.target = "y", .task = Task::classes}),
             Contains("--task classes and --target cannot be combined"));
  CHECK_THAT(csv_refusal<unisono::ConfigError>("x,y\n1,2\n", {.task = Task::regression}),
             Contains("--task says what the column of --label holds"));
}

TEST_CASE("classes that no training row has are named", "[csv]") {
  const TempDir folder;
  unisono::test::write_file(folder / "a.csv", "x,y\n1,<=50K\n2,>50K\n3,odd\n");
  unisono::test::write_file(folder / "b.csv", "x,y\n1,<=50k.\n2,> 50K.\n3,<=50k.\n4,odd\n5,none\n");
  const auto imported = [&](const std::string& test) {
    return unisono::data::import_csv(folder / "a.csv", {.label = "y", .test_file = folder / test},
                                     {.path = folder / "s.h5", .overwrite = true});
  };
  CHECK(imported("a.csv").warnings.empty());
  CHECK_THAT(imported("b.csv").warnings,
             Catch::Equals(Texts{(folder / "s.h5") +
                                 ": 4 of 5 test rows are of classes that no training row has: "
                                 "'<=50k.' (2; is it '<=50K'?), '> 50K.' (1; is it '>50K'?), 'none' (1)"}));
}

TEST_CASE("columns are named by name or number, left out, or taken as words", "[csv]") {
  const auto set = import_table("7,1,5\n8,2,6\n", {.target = "2", .exclude = {"-1"}, .categorical = {"1"}});
  CHECK(set.recipe.columns ==
        std::vector<unisono::data::RecipeColumn>{{"column1", unisono::data::ColumnKind::category, {"7", "8"}}});
  CHECK(set.features == std::vector<float>{0, 1});
  CHECK(set.targets == std::vector<float>{1, 2});
  CHECK(set.summary.classes == 0);
  CHECK_THAT(csv_refusal<unisono::ConfigError>("a,b\n1,2\n", {.label = "c"}),
             Contains("--label 'c'") && Contains("a, b"));
  CHECK_THAT(csv_refusal<unisono::ConfigError>("a,b\n1,2\n", {.target = "3"}), Contains("--target '3'"));
  CHECK_THAT(csv_refusal<unisono::ConfigError>("a,b\n1,2\n", {.label = "a", .target = "b"}),
             Contains("cannot be combined"));
}

TEST_CASE("values that cannot be used are named by line and column", "[csv]") {
  CHECK_THAT(csv_refusal("a,b\n1,2\n\n3,\n"), Contains("t.csv:4: column 'b': the value is missing"));
  CHECK_THAT(csv_refusal("a,b\n1,2\n3,?\n"), Contains("t.csv:3: column 'b': the value is missing ('?')"));
  CHECK_THAT(csv_refusal("a,b\n1,2\n3,4x\n"), Contains("t.csv:3: column 'b': '4x' is not a number"));
  CHECK_THAT(csv_refusal("a,b\n1,2\n3,1e39\n"),
             Contains("t.csv:3: column 'b': '1e39' is not a number in the range of float32"));
  CHECK_THAT(csv_refusal("a,b\n1,2\n3,4,5\n"), Contains("t.csv:3: has 3 fields, but the first line has 2"));
  CHECK_THAT(csv_refusal("a,b\n1,2\n3\n"), Contains("t.csv:3: has 1 field,"));
  CHECK_THAT(csv_refusal("a;b\n1,5;2\n"),
             Contains("t.csv:2: column 'a': '1,5' has a decimal comma; set --decimal ','"));
  CHECK_THAT(csv_refusal("a;b\n1;2\n3;4;5\n"), Contains("t.csv:3: has 3 fields, but the first line has 2"));
  CHECK_THAT(csv_refusal("a,b\n1,\"2\n"), Contains("t.csv:2: column 2: a quote is opened"));
  CHECK_THAT(csv_refusal("a,b\n", {.header = Header::yes}), Contains("has no rows"));
  CHECK_THAT(csv_refusal("a,b\n1,2\n", {.exclude = {"a", "b"}}), Contains("has no feature columns"));
  std::string many = "x,y\n";
  for (int i = 0; i < 1200; ++i) many += fmt::format("1,{}.5\n", i);
  CHECK_THAT(csv_refusal(many, {.label = "y", .task = Task::classes}),
             Contains("t.csv:1002") && Contains("use --target instead of --label"));
}

TEST_CASE("rows are dealt to groups at random, each to one, the same for the same seed", "[csv]") {
  const TempDir folder;
  std::string text = "x,y\n";
  for (int i = 0; i < 100; ++i) text += fmt::format("{},{}\n", i, i % 2);
  unisono::test::write_file(folder / "t.csv", text);
  const auto rows = [&](std::uint64_t seed) {
    const unisono::data::CsvOptions options{
        .label = "y", .validation_fraction = 0.2, .test_fraction = 0.1, .seed = seed};
    unisono::data::import_csv(folder / "t.csv", options, {.path = folder / "a.h5", .overwrite = true});
    const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
    CHECK(file.shape("train/features").rows() == 70);
    CHECK(file.shape("validation/features").rows() == 20);
    CHECK(file.shape("test/features").rows() == 10);
    std::vector<float> all;
    for (const std::string group : {"train", "validation", "test"}) {
      const auto part = file.read<float>(group + "/features");
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  };
  auto all = rows(1);
  CHECK(all == rows(1));
  CHECK(all != rows(2));
  std::sort(all.begin(), all.end());
  std::vector<float> expected(100);
  std::iota(expected.begin(), expected.end(), 0.0F);
  CHECK(all == expected);
}

TEST_CASE("a table in Latin-1 is read as one in UTF-8, if that is said", "[csv]") {
  const unisono::data::TableForm latin1{.encoding = unisono::data::Encoding::latin1};
  const auto set = import_table(
      "gr\xF6\xDF"
      "e,w\n1,caf\xE9\n2,5 \x80\n",
      {.categorical = {"w"}, .form = latin1});
  CHECK(set.summary.feature_names == Texts{"größe", "w"});
  CHECK(set.recipe.columns[1].levels == Texts{"5 €", "café"});
  CHECK(set.recipe.form == latin1);
  std::string all;
  for (int byte = 0x80; byte < 0x100; ++byte) all += static_cast<char>(byte);
  const std::string many = all + std::string(300000, '\xE9');
  const auto utf8 = as_utf8(unisono::data::bytes_of(many, "f"), latin1.encoding);
  std::string read(700000, ' ');
  read.resize(utf8->read(read));
  CHECK(unisono::data::find_invalid_utf8(read) == std::string::npos);
  CHECK(read.starts_with("€\xC2\x81‚ƒ„…†‡ˆ‰Š‹Œ"));
  CHECK(read.find("ŸÂ") == std::string::npos);
  CHECK(read.size() == 2 * 128 + 17 + 2 * 300000);  // 17 characters of 0x80 to 0x9F have three bytes
  CHECK_THAT(csv_refusal("a,gr\xF6\xDF"
                         "e\n1,2\n"),
             Contains("t.csv:1:5: the byte 0xF6 is not part of a UTF-8 character; if the file is in Latin-1, set "
                      "--encoding latin1"));
  CHECK_THAT(csv_refusal("a,w\n1,caf\xE9\n"), Contains("t.csv:2: column 'w': the byte 0xE9"));
}

TEST_CASE("rows are divided by groups, by time, or alike in each class", "[csv]") {
  const TempDir folder;
  std::string text = "x,g,t,y\n";  // 20 groups of 1 to 20 rows, times that descend, 30 rows of class a
  std::vector<int> group_of;
  for (int g = 0; g < 20; ++g) group_of.insert(group_of.end(), static_cast<std::size_t>(g + 1), g);
  for (std::size_t i = 0; i < 210; ++i)
    text += fmt::format("{},{},{},{}\n", i + 5, group_of[i * 11 % 210], (210 - i) / 2, i % 7 == 0 ? "a" : "b");
  unisono::test::write_file(folder / "t.csv", text);
  struct Divided {
    std::array<std::vector<float>, 3> rows;
    std::array<std::vector<std::int64_t>, 3> groups, labels;
    std::array<std::vector<double>, 3> times;
  };
  const auto divide = [&](TableSplit split, std::uint64_t seed = 1) {
    const unisono::data::CsvOptions options{.label = "y",
                                            .group = "g",
                                            .time = "t",
                                            .split = split,
                                            .validation_fraction = 0.1,
                                            .test_fraction = 0.2,
                                            .seed = seed};
    unisono::data::import_csv(folder / "t.csv", options, {.path = folder / "a.h5", .overwrite = true});
    const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
    Divided divided;
    const char* const names[] = {"train", "validation", "test"};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string name = names[i];
      divided.rows[i] = file.read<float>(name + "/features");
      divided.groups[i] = file.read<std::int64_t>(name + "/groups");
      divided.labels[i] = file.read<std::int64_t>(name + "/labels");
      divided.times[i] = file.read<double>(name + "/times");
    }
    CHECK(divided.rows[0].size() + divided.rows[1].size() + divided.rows[2].size() == 210);
    return divided;
  };
  for (const TableSplit split : {TableSplit::automatic, TableSplit::group}) {
    const Divided by_group = divide(split);
    for (std::size_t a = 0; a < 3; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        for (const auto group : by_group.groups[a])
          CHECK(std::count(by_group.groups[b].begin(), by_group.groups[b].end(), group) == 0);
      }
    }
    // The last group that is taken may be half its size too large or too small: at most 10 of 42 and of 21 rows.
    CHECK(std::abs(static_cast<int>(by_group.rows[2].size()) - 42) <= 10);
    CHECK(std::abs(static_cast<int>(by_group.rows[1].size()) - 21) <= 10);
    CHECK(divide(split).rows == by_group.rows);
    CHECK(divide(split, 2).rows != by_group.rows);
  }
  const Divided by_time = divide(TableSplit::time);
  CHECK((by_time.rows[1].size() == 21 && by_time.rows[2].size() == 42));
  CHECK(*std::max_element(by_time.times[0].begin(), by_time.times[0].end()) <=
        *std::min_element(by_time.times[1].begin(), by_time.times[1].end()));
  CHECK(*std::max_element(by_time.times[1].begin(), by_time.times[1].end()) <=
        *std::min_element(by_time.times[2].begin(), by_time.times[2].end()));
  const Divided by_class = divide(TableSplit::by_class);  // of 30 and 180 rows
  for (const auto& [part, first, second] : {std::tuple(1U, 3, 18), {2U, 6, 36}}) {
    const auto& labels = by_class.labels[part];
    CHECK((std::count(labels.begin(), labels.end(), 0) == first &&
           std::count(labels.begin(), labels.end(), 1) == second));
  }
  CHECK(divide(TableSplit::by_class, 2).rows != by_class.rows);
  const Divided at_random = divide(TableSplit::random);
  CHECK((at_random.rows[1].size() == 21 && at_random.rows[2].size() == 42));
  for (const TableSplit split : {TableSplit::group, TableSplit::time, TableSplit::by_class})
    CHECK_THAT(csv_refusal<unisono::ConfigError>("x,y\n1,2\n", {.split = split}), Contains("needs --"));
  CHECK_THAT(csv_refusal("x,g\n1,a\n2,a\n3,a\n4,b\n5,b\n6,b\n", {.group = "g", .test_fraction = 0.1}),
             Contains("no rows are left for the group 'test': its groups are too large"));
}

TEST_CASE("columns that say nothing about an example are left out", "[csv]") {
  const auto features = [](const std::string& header, const std::string& row, std::vector<std::string> include = {}) {
    std::string text = header;
    for (int i = 0; i < 40; ++i)
      text += fmt::format(fmt::runtime(row + ",{2},{3}\n"), i, (i * 7) % 41 + 100, i % 5, i % 2, i % 28 + 1);
    return import_table(text, {.label = "-1", .include = std::move(include)}).summary.feature_names;
  };
  CHECK(features("id,x,y\n", "{0}") == Texts{"x"});
  CHECK(features(",x,y\n", "{0}") == Texts{"x"});
  CHECK(features("", "{0}") == Texts{"column2"});
  CHECK(features("PassengerId,x,y\n", "{1}") == Texts{"x"});
  CHECK(features("customer_id,x,y\n", "c{1}") == Texts{"x"});
  CHECK(features("who,x,y\n", "c{1}") == Texts{"x"});
  CHECK(features("day,x,y\n", "2024-01-{4:02}") == Texts{"x"});
  CHECK(features("day,x,y\n", "{4}.1.2024") == Texts{"x"});
  CHECK(features("day,x,y\n", "1/{4}/2024 10:00") == Texts{"x"});
  CHECK(features("id,x,y\n", "{0}", {"id"}) == Texts{"id", "x"});
  CHECK(features("day,x,y\n", "2024-01-{4:02}", {"day"}) == Texts{"day", "x"});
  // These may say something.
  CHECK(features("t,x,y\n", "{0}") == Texts{"t", "x"});
  CHECK(features("width,x,y\n", "{1}") == Texts{"width", "x"});
  CHECK(features("id,x,y\n", "{4}") == Texts{"id", "x"});
  CHECK(features("id,x,y\n", "{0}.5") == Texts{"id", "x"});
  CHECK(features("who,x,y\n", "c{4}") == Texts{"who", "x"});
  CHECK(features("version,x,y\n", "1.{4}.0") == Texts{"version", "x"});
  // All features of a table are kept, whatever they are.
  std::string alone = "id,y\n", many = "name,x\n", days = "day,x\n";
  for (int i = 0; i < 1200; ++i) {
    alone += fmt::format("{},{}\n", i, i % 2);
    many += fmt::format("n{},{}\n", i, i % 7);
    days += fmt::format("{}-01-{:02},{}\n", 500 + i, i % 28 + 1, i % 7);
  }
  CHECK(import_table(alone, {.label = "y"}).summary.feature_names == Texts{"id"});
  CHECK(import_table(many, {}).summary.feature_names == Texts{"x"});
  CHECK(import_table(days, {}).summary.feature_names == Texts{"x"});
  CHECK_THAT(csv_refusal("name,x\nn0,1\n" + many.substr(7)), Contains("too many for classes or categories"));
}

TEST_CASE("rows without any value are left out and counted", "[csv]") {
  const auto set = import_table("x,w,y\n1,a,2\n,,\n , \"\" ,\n\n3,b,4\n,,\n", {.missing = Missing::mean});
  CHECK(set.features == std::vector<float>{1, 0, 2, 3, 1, 4});
  CHECK(set.recipe.columns[1].levels == Texts{"a", "b"});
  CHECK((set.summary.train == 2 && set.summary.empty_rows == 3));
  const auto tabs = import_table("x\tw\n1\ta\n\t\n3\tb\n \t \n", {});
  CHECK((tabs.summary.train == 2 && tabs.summary.empty_rows == 2));
  // A column alone has missing values, not empty rows.
  CHECK(import_table("x\n1\n\"\"\n2\n", {.missing = Missing::mean}).summary.train == 3);
}

TEST_CASE("what stands for a missing value may be said", "[csv]") {
  const unisono::data::TableForm form{.missing_values = {"#N/A", "None", "-", "."}};
  const auto set = import_table("x,w\n#N/A,a\n2,none\n-,NA\n", {.form = form, .missing = Missing::mean});
  CHECK((std::isnan(set.features[0]) && set.features[2] == 2 && std::isnan(set.features[4])));
  CHECK(set.recipe.columns[1].levels == Texts{"", "NA", "a"});
  CHECK(set.recipe.form == form);
  // A class, or a country, that is called NA.
  CHECK_THAT(csv_refusal("x,y\n1,NA\n2,EU\n", {.label = "y"}),
             Contains("column 'y': the value is missing ('NA')") && Contains("--drop-missing-labels") &&
                 Contains("if this is a name, say with --missing-values what is missing"));
  CHECK(import_table("x,y\n1,NA\n2,EU\n", {.label = "y", .form = {.missing_values = {}}}).class_names ==
        Texts{"EU", "NA"});
  CHECK_THAT(csv_refusal("x,w\n#N/A,a\n2,b\n"), Contains("list it with --missing-values"));
  CHECK_THAT(csv_refusal("x,w\n2,a\nNone,b\n"), Contains("list it with --missing-values"));
}

TEST_CASE("rows without a label or target may be left out", "[csv]") {
  const std::string text = "x,y\n1,\n2,5\n,\n3,?\n4,6\n";
  const auto set = import_table(text, {.target = "y", .drop_missing_labels = true});
  CHECK(set.features == std::vector<float>{2, 4});
  CHECK(set.targets == std::vector<float>{5, 6});
  CHECK((set.summary.unlabelled_rows == 2 && set.summary.empty_rows == 1));
  CHECK_THAT(csv_refusal(text, {.label = "y"}), Contains("t.csv:2: column 'y': the value is missing"));
  CHECK_THAT(csv_refusal<unisono::ConfigError>(text, {.drop_missing_labels = true}),
             Contains("needs --label or --target"));
}

TEST_CASE("missing values are kept where the recipe says what they become", "[csv]") {
  const auto set = import_table("x,w\n?,\n3,b\nNA,a\n", {.missing = Missing::mean});
  REQUIRE(set.features.size() == 6);
  CHECK((std::isnan(set.features[0]) && set.features[2] == 3 && std::isnan(set.features[4])));
  CHECK((set.features[1] == 0 && set.features[3] == 2 && set.features[5] == 1));
  CHECK(set.recipe.columns[1].levels == Texts{"", "a", "b"});
  CHECK(set.recipe.missing == unisono::data::Missing::mean);
  CHECK_THAT(csv_refusal("x,y\n1,a\n2,\n", {.label = "y", .missing = Missing::mean}), Contains("t.csv:3: column 'y'"));
  CHECK_THAT(csv_refusal<unisono::ConfigError>("1\n", {.minimum_frequency = 2}), Contains("--unknown other"));
}

TEST_CASE("columns of groups, times and weights are no features", "[csv]") {
  const TempDir folder;
  unisono::test::write_file(folder / "t.csv", "x,g,t,w\n1,b,2024-02-29,0.5\n2,a,2024-02-29T00:01:00,2\n");
  unisono::data::import_csv(folder / "t.csv", {.group = "g", .time = "t", .weight = "w"}, {.path = folder / "a.h5"});
  const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
  CHECK(file.read<float>("train/features") == std::vector<float>{1, 2});
  CHECK(file.read<std::int64_t>("train/groups") == std::vector<std::int64_t>{1, 0});
  CHECK(file.read<double>("train/times") == std::vector<double>{1709164800, 1709164860});
  CHECK(file.read<float>("train/weights") == std::vector<float>{0.5, 2});
  CHECK_THAT(csv_refusal("x,w\n1,-1\n", {.weight = "w"}), Contains("t.csv:2: column 'w': '-1' is not a weight"));
  CHECK_THAT(csv_refusal("x,t\n1,soon\n", {.time = "t"}), Contains("t.csv:2: column 't': 'soon' is not a time"));
}

TEST_CASE("missing values that are numbers are found by their value", "[csv]") {
  TableForm form;
  form.missing_values = {"-999", "none"};
  for (const char* text : {"-999", "-999.0", "-9.99e2", "NONE", ""}) CHECK(is_missing(text, form));
  for (const char* text : {"999", "-99", "-999.5", "-999x", "non", "0"}) CHECK_FALSE(is_missing(text, form));
}

TEST_CASE("times are numbers or dates", "[csv]") {
  CHECK(unisono::data::parse_time("12.5") == 12.5);
  CHECK(unisono::data::parse_time("1970-01-02") == 86400);
  CHECK(unisono::data::parse_time("1970-01-01 01:00") == 3600);
  CHECK(unisono::data::parse_time("1970-01-01T00:00:01.5Z") == 1.5);
  for (const char* text : {"2023-02-29", "1970-01-01T25:00", "1970-01-01x", "1970-01-01T00:00:00+01:00", "31-12-24",
                           "70-01-01", "soon", ""}) {
    CHECK_FALSE(unisono::data::parse_time(text));
  }
}

TEST_CASE("a second table is the test group, and may have words of its own", "[csv]") {
  const TempDir folder;
  unisono::test::write_file(folder / "t.csv", "x,w,y\n1,a,no\n3,b,yes\n");
  unisono::test::write_file(folder / "s.csv", "x,w,y\n5,c,yes\n");
  const unisono::data::CsvOptions options{.label = "y", .test_file = folder / "s.csv"};
  const auto summary = unisono::data::import_csv(folder / "t.csv", options, {.path = folder / "a.h5"});
  CHECK(summary.test == 1);
  const unisono::data::hdf5::File file(folder / "a.h5", unisono::data::hdf5::File::Mode::read);
  CHECK(file.read<float>("test/features") == std::vector<float>{5, 2});
  CHECK(unisono::data::read_recipe(file).columns[1].levels == Texts{"a", "b", "c"});
  unisono::test::write_file(folder / "s.csv", "w,x,y\nc,5,yes\n");
  CHECK_THAT(unisono::test::message_of<unisono::DataError>(
                 [&] { unisono::data::import_csv(folder / "t.csv", options, {.path = folder / "b.h5"}); }),
             Contains("s.csv:1: column 1 is named 'w', but 'x' in "));
  CHECK_THAT(csv_refusal<unisono::ConfigError>("1\n", {.test_fraction = 0.5, .test_file = "s"}),
             Contains("cannot be combined"));
  CHECK_THAT(csv_refusal<unisono::ConfigError>("1\n", {.validation_fraction = 0.5, .test_fraction = 0.5}),
             Contains("leave no rows for training"));
}

TEST_CASE("well-known tables are imported as they are", "[csv][data]") {
  const char* root = std::getenv("UNISONO_DATA");
  if (root == nullptr) {
    WARN("skipped: UNISONO_DATA does not name a folder with iris, wine-quality and wdbc");
    return;
  }
  const TempDir folder;
  const std::string data = root;
  const auto iris = unisono::data::import_csv(data + "/iris/iris.csv", {.label = "-1"}, {.path = folder / "iris.h5"});
  CHECK(iris.train == 150);
  CHECK(iris.shape == std::vector<std::int64_t>{4});
  CHECK(iris.classes == 3);
  const auto wine = unisono::data::import_csv(data + "/wine-quality/winequality-red.csv", {.target = "quality"},
                                              {.path = folder / "wine.h5"});
  CHECK(wine.train == 1599);
  CHECK(wine.feature_names[10] == "alcohol");
  const auto wdbc = unisono::data::import_csv(
      data + "/wdbc/wdbc.data", {.label = "2", .exclude = {"1"}, .test_fraction = 0.2}, {.path = folder / "wdbc.h5"});
  CHECK(wdbc.train + wdbc.test == 569);
  CHECK(wdbc.shape == std::vector<std::int64_t>{30});
  const unisono::data::hdf5::File file(folder / "wdbc.h5", unisono::data::hdf5::File::Mode::read);
  std::int64_t malignant = 0;
  for (const std::string group : {"train", "test"}) {
    for (const auto label : file.read<std::int64_t>(group + "/labels")) malignant += label;
  }
  CHECK(malignant == 212);  // as wdbc.names says
}
