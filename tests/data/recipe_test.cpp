#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "import/raw_formats.hpp"
#include "recipe/encoder.hpp"
#include "recipe/recipe_file.hpp"
#include "sets.hpp"
#include "unisono/data/import.hpp"

using namespace unisono::data;
using Catch::Contains;
using unisono::test::features_of;
using unisono::test::message_of;
using unisono::test::TempDir;
using Texts = std::vector<std::string>;

namespace {

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

unisono::data::Preprocessing size_and_colour(unisono::data::Unknown unknown = unisono::data::Unknown::error,
                                             bool other = false) {
  unisono::data::Preprocessing fitted;
  fitted.recipe.unknown = unknown;
  fitted.columns = {
      {.name = "size", .fill = 2.5},
      {.name = "colour", .kind = unisono::data::ColumnKind::category, .levels = {"blue", "red"}, .other = other}};
  return fitted;
}

std::vector<float> encode(const unisono::data::Encoder& encoder, const std::vector<float>& raw) {
  std::vector<float> features(static_cast<std::size_t>(encoder.width()), -7.0F);
  encoder.encode(raw.data(), features.data(), "f.h5: /train/features", 3);
  return features;
}

std::string import_text(const TempDir& folder, const std::string& text, const unisono::data::CsvOptions& options) {
  unisono::test::write_file(folder / "t.csv", text);
  unisono::data::import_csv(folder / "t.csv", options, {.path = folder / "t.h5", .overwrite = true});
  return folder / "t.h5";
}

}  // namespace

TEST_CASE("a recipe and its fit are the same after a file", "[recipe]") {
  unisono::data::Preprocessing fitted = size_and_colour(unisono::data::Unknown::other, true);
  fitted.recipe.columns = {{.name = "size"}, {"colour", unisono::data::ColumnKind::category, {"", "blue", "größer"}}};
  fitted.recipe.missing = unisono::data::Missing::median;
  fitted.recipe.scaling = unisono::data::Scaling::min_max;
  fitted.recipe.minimum_frequency = 3;
  fitted.recipe.header = false;
  fitted.recipe.fields = 4;
  fitted.recipe.label = "kind";
  fitted.columns[0].low = 0.1;
  fitted.columns[0].high = 1e300;
  fitted.class_names = {"cat", "dog"};
  fitted.bytes = true;
  fitted.scale = 1.0F / 255;
  const unisono::data::Preprocessing read =
      unisono::data::preprocessing_from_json(unisono::data::to_json(fitted), "here");
  CHECK(read.recipe.columns == fitted.recipe.columns);
  CHECK(unisono::data::to_json(read) == unisono::data::to_json(fitted));
  CHECK(read.known);
  CHECK(read.scale == fitted.scale);
  CHECK(read.encoded_names() == Texts{"size", "colour=blue", "colour=red", "colour=other"});
  CHECK_THAT(
      unisono::test::message_of<unisono::DataError>([] { unisono::data::recipe_from_json("{", "a.h5: /recipe"); }),
      Contains("a.h5: /recipe cannot be"));
  CHECK_THAT(
      unisono::test::message_of<unisono::DataError>([] { unisono::data::recipe_from_json(R"({"version": 2})", "r"); }),
      Contains("version 2"));
}

TEST_CASE("columns are found by name, levels by their text", "[recipe]") {
  // The file has another order of columns and levels, and a column that the model does not use.
  const unisono::data::Recipe file{
      .columns = {{"colour", unisono::data::ColumnKind::category, {"red", "blue"}}, {.name = "id"}, {.name = "size"}}};
  const unisono::data::Encoder encoder(size_and_colour(), file, "f.h5");
  CHECK(encode(encoder, {0, 99, 1.5}) == std::vector<float>{1.5, 0, 1});
  CHECK(encode(encoder, {1, 99, kNone}) == std::vector<float>{2.5, 1, 0});
}

TEST_CASE("what the model does not know is refused by example, column and value, or is 'other'", "[recipe]") {
  const unisono::data::Recipe file{
      .columns = {{.name = "size"}, {"colour", unisono::data::ColumnKind::category, {"red", "purple", ""}}}};
  const unisono::data::Encoder strict(size_and_colour(), file, "f.h5");
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] {
               encode(strict, {1, 1});
             }),
             Contains("f.h5: /train/features: example 3: column 'colour': 'purple'") && Contains("blue, red"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] {
               encode(strict, {1, 2});
             }),
             Contains("the value is missing"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] {
               encode(strict, {1, 5});
             }),
             Contains("category number 5"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] {
               encode(strict, {1, kNone});
             }),
             Contains("column 'colour'"));
  CHECK(encode(unisono::data::Encoder(size_and_colour(unisono::data::Unknown::other), file, "f"), {1, 1}) ==
        std::vector<float>{1, 0, 0});
  CHECK(encode(unisono::data::Encoder(size_and_colour(unisono::data::Unknown::other, true), file, "f"), {1, 1}) ==
        std::vector<float>{1, 0, 0, 1});
  unisono::data::Preprocessing whole = size_and_colour();
  whole.columns[0].fill.reset();
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] {
               encode(unisono::data::Encoder(whole, file, "f"), {kNone, 0});
             }),
             Contains("column 'size': the value is missing"));
  const unisono::data::Recipe renamed{
      .columns = {{.name = "Size"}, {"colour", unisono::data::ColumnKind::category, {"red"}}}};
  CHECK_THAT(unisono::test::message_of<unisono::DataError>(
                 [&] { unisono::data::Encoder(size_and_colour(), renamed, "f.h5"); }),
             Contains("f.h5: has no column 'size'") && Contains("is it 'Size'?"));
  const unisono::data::Recipe numbers{.columns = {{.name = "size"}, {.name = "colour"}}};
  CHECK_THAT(
      unisono::test::message_of<unisono::DataError>([&] { unisono::data::Encoder(size_and_colour(), numbers, "f"); }),
      Contains("holds numbers"));
}

TEST_CASE("levels that are numbers are found by their value", "[recipe]") {
  const unisono::data::LevelIndex numbers({"", "1", "10", "2.5"}), words({"1", "x"});
  CHECK(numbers.find("1.0") == 1U);
  CHECK(numbers.find("+10") == 2U);
  CHECK(numbers.find("") == 0U);
  CHECK_FALSE(numbers.find("3"));
  CHECK_FALSE(words.find("1.0"));
}

TEST_CASE("a run fits the recipe on its training rows alone", "[recipe]") {
  const TempDir folder;
  // The test rows would move every figure: mean 4 and deviation √5 are those of 1, 3, 5, 7.
  unisono::test::write_file(folder / "s.csv", "x,w\n1000,c\n");
  const unisono::data::CsvOptions options{
      .scale = Scaling::standard, .unknown = Unknown::other, .test_file = folder / "s.csv"};
  unisono::data::DataSettings settings;
  settings.path = import_text(folder, "x,w\n1,a\n3,b\n5,a\n7,a\n", options);
  settings.targets = unisono::data::Targets::features;
  const auto set = unisono::data::open_dataset(settings, 1);
  CHECK(set->preprocessing().encoded_names() == Texts{"x", "w=a", "w=b"});
  CHECK(set->info().features.size() == 3);
  const float s = std::sqrt(5.0F);
  const std::vector<float> expected{-3 / s, 1, 0, -1 / s, 0, 1, 1 / s, 1, 0, 3 / s, 1, 0};
  const auto features = features_of(*set, unisono::data::Split::train);
  REQUIRE(features.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(features[i] == Approx(expected[i]).margin(1e-6));
  const auto test_features = features_of(*set, unisono::data::Split::test);
  CHECK(test_features[0] == Approx(996 / s));
  CHECK((test_features[1] == 0 && test_features[2] == 0));
}

TEST_CASE("missing numbers become the training rows' mean or median, rare levels 'other'", "[recipe]") {
  const TempDir folder;
  const std::string text = "x,w\n1,a\n,a\n2,b\n9,\n";
  unisono::data::DataSettings settings;
  settings.targets = unisono::data::Targets::features;
  settings.path = import_text(folder, text, {.scale = Scaling::none, .missing = Missing::mean});
  CHECK(features_of(*unisono::data::open_dataset(settings, 1), unisono::data::Split::train) ==  // x, w missing, a, b
        std::vector<float>{1, 0, 1, 0, 4, 0, 1, 0, 2, 0, 0, 1, 9, 1, 0, 0});
  settings.path = import_text(
      folder, text,
      {.scale = Scaling::min_max, .missing = Missing::median, .unknown = Unknown::other, .minimum_frequency = 2});
  CHECK(features_of(*unisono::data::open_dataset(settings, 1),
                    unisono::data::Split::train) ==  // x from 1 to 9, w a, other
        std::vector<float>{0, 1, 0, 0.125, 1, 0, 0.125, 0, 1, 1, 0, 1});
  settings.path = import_text(folder, "x,w\n,a\n,b\n", {.missing = Missing::mean});
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::open_dataset(settings, 1); }),
             Contains("column 'x' has no value"));
}

TEST_CASE("all ranks and readers have the same fit and features", "[recipe]") {
  const TempDir folder;
  std::string text = "x,w,y\n";
  for (int i = 0; i < 101; ++i)
    text += std::to_string(i * i % 37) + "," + std::string(1, static_cast<char>('a' + i % 5)) + "," +
            std::to_string(i % 3) + "\n";
  unisono::data::DataSettings settings;
  settings.path = import_text(folder, text, {.label = "y", .scale = Scaling::standard, .missing = Missing::mean});
  settings.validation_fraction = 0.2;
  const auto alone = unisono::data::open_dataset(settings, 1);
  const auto expected = features_of(*alone, unisono::data::Split::train);
  unisono::test::ThreadRanks ranks(3);
  std::array<bool, 3> same{};
  ranks.run([&](int rank) {
    const auto set = unisono::data::open_dataset(settings, 1, ranks.share(rank));
    same[static_cast<std::size_t>(rank)] =
        unisono::data::to_json(set->preprocessing()) == unisono::data::to_json(alone->preprocessing()) &&
        features_of(*set, unisono::data::Split::train) == expected;
  });
  CHECK(same == std::array{true, true, true});
  settings.reader = unisono::data::Reader::streaming;
  settings.stratify = false;
  const auto streamed = unisono::data::open_dataset(settings, 1);
  settings.reader = unisono::data::Reader::resident;
  CHECK(features_of(*streamed, unisono::data::Split::train) ==
        features_of(*unisono::data::open_dataset(settings, 1), unisono::data::Split::train));
}

TEST_CASE("a raw table is read as the training table was", "[recipe]") {
  const TempDir folder;
  const unisono::data::Preprocessing fitted = [&] {
    unisono::data::DataSettings settings;
    settings.path = import_text(folder, "w,x,y\na,1,no\nb,2,yes\na,4,yes\n", {.label = "y", .scale = Scaling::none});
    return unisono::data::open_dataset(settings, 1)->preprocessing();
  }();
  const auto read = [&](const std::string& text) {
    unisono::test::write_file(folder / "new.csv", text);
    const std::string left_out =
        unisono::data::import_raw(folder / "new.csv", {unisono::data::SetKind::table, {}, fitted},
                                  {.path = folder / "new.h5", .overwrite = true});
    unisono::data::DataSettings settings;
    settings.path = folder / "new.h5";
    const auto set = unisono::data::open_dataset(settings, 1, {}, &fitted);
    CHECK(set->info().targets[2].labels == (left_out.empty() && text.find('y') != std::string::npos));
    return features_of(*set, unisono::data::Split::test);
  };
  const auto refusal = [&](const std::string& text) {
    return unisono::test::message_of<unisono::DataError>([&] { read(text); });
  };
  CHECK(read("x,id,w\n7,9,b\n") == std::vector<float>{0, 1, 7});
  CHECK(read("y;x;w\nyes;7;b\nno;1;a\n") == std::vector<float>{0, 1, 7, 1, 0, 1});
  CHECK(read("y,x,w\nmaybe,7,b\n") == std::vector<float>{0, 1, 7});
  CHECK_THAT(refusal("x,w\n7,c\n"), Contains("new.csv:2: column 'w': 'c', which the model was not trained on"));
  CHECK_THAT(refusal("x,w\n7,a\nz,a\n"), Contains("new.csv:3: column 'x': 'z' is not a number"));
  CHECK_THAT(refusal("x,w\n,a\n"), Contains("new.csv:2: column 'x': the value is missing"));
  CHECK_THAT(refusal("z,w\n1,a\n"), Contains("has no column 'x'"));
  CHECK_THAT(refusal("1,a\n"), Contains("has none of the column names"));
  CHECK_THAT(refusal("x,w,x\n1,a,2\n"), Contains("two columns are named 'x'"));
  CHECK_THAT(refusal("x,w\n"), Contains("has no rows"));
}

TEST_CASE("a table to predict has its numbers in the form of the training table", "[recipe]") {
  const TempDir folder;
  const unisono::data::CsvOptions options{.label = "y", .form = {.decimal = ",", .thousands = "."}};
  unisono::data::DataSettings settings;
  settings.path = import_text(folder, "x;w;y\n1.234,5;a;no\n0,5;b;yes\n2;b;no\n", options);
  const unisono::data::Preprocessing fitted = unisono::data::open_dataset(settings, 1)->preprocessing();
  CHECK(unisono::data::preprocessing_from_json(unisono::data::to_json(fitted), "f").recipe.form == options.form);
  const auto read = [&](const std::string& text) {
    unisono::test::write_file(folder / "new.csv", text);
    unisono::data::write_raw_table(folder / "new.csv", fitted, {.path = folder / "new.h5", .overwrite = true});
    return unisono::data::hdf5::File(folder / "new.h5", unisono::data::hdf5::File::Mode::read)
        .read<float>("test/features");
  };
  CHECK(read("x;w\n1.000;a\n0,25;b\n") == std::vector<float>{1000, 0, 0.25, 1});
  // The names show what separates the columns, where the values could be cut by either.
  CHECK(read("w;x\na;1,5\nb;2,5\n") == std::vector<float>{0, 1.5, 1, 2.5});
  CHECK(read("w\tx\na\t1,5\n") == std::vector<float>{0, 1.5});
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { read("x;w\n1.5;a\n"); }),
             Contains("new.csv:2: column 'x': '1.5' is a number with a decimal point, but --decimal is ','"));
}

TEST_CASE("a row to predict may be empty, and what is missing is what the training table said", "[recipe]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.targets = unisono::data::Targets::features;
  settings.path = import_text(folder, "x,z\n1,3\nnone,4\n3,8\n",
                              {.form = {.missing_values = {"none"}}, .scale = Scaling::none, .missing = Missing::mean});
  const unisono::data::Preprocessing fitted = unisono::data::open_dataset(settings, 1)->preprocessing();
  unisono::test::write_file(folder / "new.csv", "x,z\n5,6\n,\nnone,7\n");
  unisono::data::write_raw_table(folder / "new.csv", fitted, {.path = folder / "new.h5"});
  settings.path = folder / "new.h5";
  CHECK(features_of(*unisono::data::open_dataset(settings, 1, {}, &fitted), unisono::data::Split::test) ==
        std::vector<float>{5, 6, 2, 5, 2, 7});
}

TEST_CASE("dates of a raw table become the features that those of the training table became", "[recipe]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = import_text(
      folder, "day,x,y\n1.3.2024 12:30,1,no\n2/3/2024,2,yes\n",
      {.label = "y", .dates = {"day"}, .date_order = unisono::data::DateOrder::dmy, .scale = Scaling::none});
  const unisono::data::Preprocessing fitted = unisono::data::open_dataset(settings, 1)->preprocessing();
  const unisono::data::DateColumn day{"day", unisono::data::DateOrder::dmy, true};
  CHECK(unisono::data::preprocessing_from_json(unisono::data::to_json(fitted), "f").recipe.dates == std::vector{day});
  const auto read = [&](const std::string& text) {
    unisono::test::write_file(folder / "new.csv", text);
    unisono::data::write_raw_table(folder / "new.csv", fitted, {.path = folder / "new.h5", .overwrite = true});
    unisono::data::DataSettings raw;
    raw.path = folder / "new.h5";
    return features_of(*unisono::data::open_dataset(raw, 1, {}, &fitted), unisono::data::Split::test);
  };
  const auto refusal = [&](const std::string& text) {
    return unisono::test::message_of<unisono::DataError>([&] { read(text); });
  };
  // 19,782 days after 1970-01-01, a Thursday.
  CHECK(read("x,other,day\n7,1,29-2-2024\n") == std::vector<float>{2024, 2, 4, 19782, 0, 7});
  CHECK(read("day;x\n29.02.2024T06:15;7\n") == std::vector<float>{2024, 2, 4, 19782, 6.25, 7});
  CHECK_THAT(refusal("x,day\n7,2024-02-29\n"),
             Contains("new.csv:2: column 'day': '2024-02-29' is not a date like 31/12/2024"));
  CHECK_THAT(refusal("x,day\n7,\n"), Contains("new.csv:2: column 'day': the value is missing"));
  CHECK_THAT(refusal("x,day.year\n7,2024\n"), Contains("has no column 'day'"));
  CHECK_THAT(refusal("x,day,day\n7,1/2/2024,1/2/2024\n"), Contains("two columns are named 'day'"));
}

TEST_CASE("columns without names are known by their places", "[recipe]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path =
      import_text(folder, "9,1,2,0\n9,3,4,1\n9,5,6,1\n", {.label = "-1", .exclude = {"1"}, .scale = Scaling::none});
  const unisono::data::Preprocessing fitted = unisono::data::open_dataset(settings, 1)->preprocessing();
  const auto refusal = [&](const std::string& text) {
    unisono::test::write_file(folder / "new.csv", text);
    return unisono::test::message_of<unisono::DataError>([&] {
      unisono::data::write_raw_table(folder / "new.csv", fitted, {.path = folder / "new.h5", .overwrite = true});
    });
  };
  CHECK(refusal("9,1,2,0\n").empty());
  CHECK(refusal("9,1,2\n").empty());  // the label was last
  CHECK_THAT(refusal("1,2,0,5,6\n"), Contains("has 5 columns without names") && Contains("had 4"));
  CHECK_THAT(refusal("1,2\n"), Contains("has 2 columns"));
}

TEST_CASE("sets of other kinds than the model's are refused, whichever way round", "[recipe]") {
  const TempDir folder;
  unisono::data::DataSettings with, without;
  with.path = import_text(folder, "x,z,y\n1,2,a\n3,4,b\n", {.label = "y", .scale = Scaling::none});
  without.path = folder / "plain.h5";
  {
    unisono::data::hdf5::File file(without.path, unisono::data::hdf5::File::Mode::create);
    file.create<float>("train/features", {2, 2});
    const std::vector<float> values{1, 2, 3, 4};
    file.write_rows("train/features", 0, 2, values.data());
    file.write("train/labels", std::vector<std::int64_t>{0, 1});
  }
  const unisono::data::Preprocessing raw = unisono::data::open_dataset(with, 1)->preprocessing(),
                                     stored = unisono::data::open_dataset(without, 1)->preprocessing();
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::open_dataset(with, 1, {}, &stored); }),
             Contains("holds raw columns") && Contains("unisono data import csv"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::open_dataset(without, 1, {}, &raw); }),
             Contains("has no recipe"));
  {
    unisono::data::hdf5::File file(without.path, unisono::data::hdf5::File::Mode::update);
    file.write_attribute("train/features", "feature_names", Texts{"z", "x"});
  }
  CHECK(features_of(*unisono::data::open_dataset(without, 1, {}, &raw), unisono::data::Split::train) ==
        std::vector<float>{2, 1, 4, 3});
  const unisono::data::Preprocessing named = unisono::data::open_dataset(without, 1)->preprocessing();
  {
    unisono::data::hdf5::File file(without.path, unisono::data::hdf5::File::Mode::update);
    file.write_attribute("train/features", "feature_names", Texts{"x", "z"});
  }
  CHECK_THAT(
      unisono::test::message_of<unisono::DataError>([&] { unisono::data::open_dataset(without, 1, {}, &named); }),
      Contains("feature 1 is 'x', but 'z'"));
}

TEST_CASE("labels have the numbers that the model's classes have", "[recipe]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = import_text(folder, "x,y\n1,a\n2,b\n3,c\n", {.label = "y"});
  const unisono::data::Preprocessing trained = unisono::data::open_dataset(settings, 1)->preprocessing();
  settings.path = import_text(folder, "x,y\n1,b\n2,c\n", {.label = "y"});
  const auto set = unisono::data::open_dataset(settings, 1, {}, &trained);
  CHECK(set->info().classes == 3);
  const auto source = set->evaluate(unisono::data::Split::train, 0, 1, 2);
  const auto batch = source->next();
  CHECK((batch->labels[0] == 1 && batch->labels[1] == 2));
  settings.path = import_text(folder, "x,y\n1,b\n2,d\n", {.label = "y"});
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] {
               features_of(*unisono::data::open_dataset(settings, 1, {}, &trained), unisono::data::Split::train);
             }),
             Contains("example 1 is of class 'd'"));
}

TEST_CASE("images with channels last are asked for, and turned", "[recipe]") {
  const TempDir folder;
  unisono::data::DataSettings settings;
  settings.path = folder / "a.h5";
  settings.targets = unisono::data::Targets::features;
  std::vector<float> values(2 * 6 * 5 * 3);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  {
    unisono::data::hdf5::File file(settings.path, unisono::data::hdf5::File::Mode::create);
    file.create<float>("train/features", {2, 6, 5, 3});
    file.write_rows("train/features", 0, 2, values.data());
  }
  CHECK_THAT(unisono::test::message_of<unisono::ConfigError>([&] { unisono::data::open_dataset(settings, 1); }),
             Contains("data.layout = \"hwc\"") && Contains("6 × 5 with 3 channels"));
  settings.layout = unisono::data::ImageLayout::chw;
  CHECK(unisono::data::open_dataset(settings, 1)->info().features == unisono::data::FeatureShape{6, 5, 3});
  settings.layout = unisono::data::ImageLayout::hwc;
  const auto set = unisono::data::open_dataset(settings, 1);
  CHECK(set->info().features == unisono::data::FeatureShape{3, 6, 5});
  const auto features = features_of(*set, unisono::data::Split::train);
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t pixel = 0; pixel < 30; ++pixel) CHECK(features[90 + c * 30 + pixel] == values[90 + pixel * 3 + c]);
  }
  settings.layout = unisono::data::ImageLayout::automatic;
  {
    unisono::data::hdf5::File file(settings.path, unisono::data::hdf5::File::Mode::update);
    file.write_attribute("train/features", "layout", std::string("hwc"));
  }
  CHECK(unisono::data::open_dataset(settings, 1)->info().features == unisono::data::FeatureShape{3, 6, 5});
}

TEST_CASE("arrays of NumPy are read, and refused where they are damaged", "[recipe]") {
  const auto npy = [](const std::string& header, const std::string& values) {
    std::string text = "\x93NUMPY\x01" + std::string(1, '\0');
    text += static_cast<char>(header.size());
    text += std::string(1, '\0') + header + values;
    return std::vector<std::uint8_t>(text.begin(), text.end());
  };
  const auto bytes =
      unisono::data::parse_npy(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }", "\1\2\3\4"), "a.npy");
  CHECK((bytes.bytes && bytes.extent == std::vector<std::int64_t>{2, 2} && bytes.values_of_bytes[3] == 4));
  const auto integers = unisono::data::parse_npy(
      npy("{'descr': '<i2', 'fortran_order': False, 'shape': (1,), }", std::string("\xFE\xFF", 2)), "a.npy");
  CHECK((!integers.bytes && integers.values == std::vector<float>{-2}));
  const auto refusal = [&](const std::string& header, const std::string& values) {
    return unisono::test::message_of<unisono::DataError>(
        [&] { unisono::data::parse_npy(npy(header, values), "a.npy"); });
  };
  // What numpy.save writes for np.arange(24).reshape(2, 3, 4) and its transposed (4, 3, 2), which is in Fortran's
  // order.
  std::string counted(24, '\0');
  std::iota(counted.begin(), counted.end(), '\0');
  const auto turned =
      unisono::data::parse_npy(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (4, 3, 2), }", counted), "a.npy");
  CHECK(turned.extent == std::vector<std::int64_t>{4, 3, 2});
  for (std::size_t i = 0; i < 24; ++i) CHECK(turned.values_of_bytes[i] == (i % 2) * 12 + i / 2 % 3 * 4 + i / 6);
  const auto matrix = unisono::data::parse_npy(
      npy("{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }", std::string("\1\4\2\5\3\6")), "a.npy");
  CHECK(matrix.values == std::vector<float>{1, 2, 3, 4, 5, 6});
  const auto big = unisono::data::parse_npy(
      npy("{'descr': '>i2', 'fortran_order': True, 'shape': (2,), }", std::string("\xFF\xFE\x01\x02", 4)), "a.npy");
  CHECK(big.values == std::vector<float>{-2, 258});
  // float16: 1.5, ∞, NaN. What is not finite stays so, and the set that is made of it is refused.
  const auto halves = unisono::data::parse_npy(
      npy("{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }", std::string("\x00\x3E\x00\x7C\x00\x7E", 6)),
      "a.npy");
  CHECK((halves.values[0] == 1.5F && std::isinf(halves.values[1]) && std::isnan(halves.values[2])));
  const auto truths = unisono::data::parse_npy(
      npy("{'descr': '|b1', 'fortran_order': False, 'shape': (2,), }", std::string("\0\1", 2)), "a.npy");
  CHECK((!truths.bytes && truths.values == std::vector<float>{0, 1}));
  CHECK_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "1234"),
             Contains("but 4 bytes follow"));
  CHECK_THAT(refusal("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "1"), Contains("type '|O'"));
  CHECK_THAT(refusal("{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999,), }", "1"),
             Contains("a.npy"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([&] { unisono::data::parse_npy(npy("{}", ""), "a.npy"); }),
             Contains("has no valid 'descr'"));
  CHECK_THAT(unisono::test::message_of<unisono::DataError>([] {
               unisono::data::parse_npy(std::vector<std::uint8_t>{1, 2}, "a.npy");
             }),
             Contains("is not a .npy file"));
}
