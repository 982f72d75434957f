// Sets of texts with classes: documents as examples, padding, and their import from tables.
#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <set>

#include "sets.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/import.hpp"
#include "unisono/data/tokenizer.hpp"

using namespace unisono;
using namespace unisono::data;
using namespace unisono::test;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t kTextContext = 4;

/// Document i of a group has 1 + i mod 7 tokens, all of them i mod 11, and the class i mod 3.
void write_documents(hdf5::File& file, const std::string& group, std::int64_t documents, bool labels = true) {
  std::vector<std::uint16_t> tokens;
  std::vector<std::uint64_t> begins = {0};
  std::vector<std::int64_t> classes;
  for (std::int64_t i = 0; i < documents; ++i) {
    tokens.insert(tokens.end(), static_cast<std::size_t>(1 + i % 7), static_cast<std::uint16_t>(i % 11));
    begins.push_back(tokens.size());
    classes.push_back(i % 3);
  }
  file.write(group + "/tokens", tokens);
  file.write(group + "/documents", begins);
  if (labels) file.write(group + "/labels", classes);
}

std::string write_set_of_documents(const std::string& path, std::int64_t train, std::int64_t validation = 0,
                                   const std::vector<std::string>& names = {"a", "b", "c"}) {
  hdf5::File file(path, hdf5::File::Mode::create);
  write_documents(file, "train", train);
  if (validation > 0) write_documents(file, "validation", validation);
  file.write_attribute("", "vocabulary", std::int64_t{11});
  file.write_attribute("", "class_names", names);
  return path;
}

DataSettings document_settings(const std::string& path, Reader reader = Reader::automatic) {
  DataSettings settings;
  settings.path = path;
  settings.context = kTextContext;
  settings.reader = reader;
  return settings;
}

/// Checks that a batch's examples are these documents, cut or padded. \return their numbers
std::vector<std::uint64_t> documents_of(const Batch& batch) {
  REQUIRE(batch.rows == kTextContext);
  REQUIRE(std::ssize(batch.tokens) == batch.size * kTextContext);
  REQUIRE(std::ssize(batch.lengths) == batch.size);
  REQUIRE(std::ssize(batch.labels) == batch.size);
  for (std::size_t b = 0; b < batch.examples.size(); ++b) {
    const auto document = static_cast<std::int32_t>(batch.examples[b]);
    const auto length = std::min<std::int32_t>(kTextContext, 1 + document % 7);
    CHECK(batch.lengths[b] == length);
    CHECK(batch.labels[b] == document % 3);
    for (std::int32_t t = 0; t < kTextContext; ++t) {
      CHECK(batch.tokens[b * kTextContext + static_cast<std::size_t>(t)] == (t < length ? document % 11 : -1));
    }
  }
  return {batch.examples.begin(), batch.examples.end()};
}

std::vector<std::uint64_t> documents_of_pass(Dataset& set, Split split, int ranks) {
  std::vector<std::uint64_t> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto source = set.evaluate(split, rank, ranks, 3);
    while (const auto batch = source->next()) {
      const auto some = documents_of(*batch);
      all.insert(all.end(), some.begin(), some.end());
    }
  }
  return all;
}

std::vector<std::uint64_t> numbers_below(std::size_t n) {
  std::vector<std::uint64_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
  return numbers;
}

/// What importing this table says; the set is FOLDER/t.h5.
TokensSummary import_texts(const TempDir& folder, const std::string& table, TokensOptions options = {}) {
  write_file(folder / "t.csv", table);
  if (options.text_column.empty()) options.text_column = "text";
  if (options.label_column.empty()) options.label_column = "class";
  return import_tokens({folder / "t.csv"}, options, {.path = folder / "t.h5", .overwrite = true});
}

std::string import_refusal(const TempDir& folder, const std::string& table, const TokensOptions& options = {}) {
  try {
    import_texts(folder, table, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("each document is an example: its first tokens, and padding behind a shorter one", "[documents]") {
  const TempDir folder;
  write_set_of_documents(folder / "t.h5", 23, 10);
  for (const Reader reader : {Reader::resident, Reader::streaming}) {
    const auto set = open_dataset(document_settings(folder / "t.h5", reader), 1);
    const DatasetInfo& info = set->info();
    CHECK((info.kind == SetKind::tokens && info.classes == 3 && info.context == kTextContext && info.rows == 11));
    CHECK((info.train == 23 && info.validation == 10 && info.test == 0));
    CHECK((info.targets[0].labels && info.targets[1].labels));
    // Lengths 1 … 7 come again and again; those of 5, 6 and 7 are cut.
    CHECK(info.cut == std::array<std::int64_t, 3>{9, 3, 0});
    CHECK(info.tokens == std::array<std::int64_t, 3>{3 * 28 + 1 + 2, 28 + 1 + 2 + 3, 0});
    const auto source = set->train({.batch_size = 5, .seed = 3});
    CHECK((source->steps_per_epoch() == 5 && source->examples_per_epoch() == 23));
    std::set<std::vector<std::uint64_t>> orders;
    for (int epoch = 0; epoch < 5; ++epoch) {
      std::vector<std::uint64_t> all;
      for (int step = 0; step < 5; ++step) {
        const auto some = documents_of(source->next());
        all.insert(all.end(), some.begin(), some.end());
      }
      orders.insert(all);
      std::ranges::sort(all);
      CHECK(all == numbers_below(23));
    }
    CHECK(orders.size() == 5);
    for (const int ranks : {1, 2, 3}) CHECK(documents_of_pass(*set, Split::validation, ranks) == numbers_below(10));
    CHECK(set->class_counts() == std::vector<std::int64_t>{8, 8, 7});
    CHECK(set->seen_classes() == std::vector<bool>{true, true, true});
    CHECK(!set->common_answer(Split::train));
  }
}

TEST_CASE("ranks and micro-batches share the documents of a step", "[documents]") {
  const TempDir folder;
  write_set_of_documents(folder / "t.h5", 40);
  const auto set = open_dataset(document_settings(folder / "t.h5"), 1);
  const auto alone = take_steps(*set->train({.batch_size = 7, .seed = 9}), 12);
  for (const int ranks : {2, 3}) {
    std::vector<std::vector<std::uint64_t>> together(12);
    for (int rank = 0; rank < ranks; ++rank) {
      const auto own =
          take_steps(*set->train({.rank = rank, .size = ranks, .batch_size = 7, .micro_batches = 2, .seed = 9}), 12);
      for (std::size_t step = 0; step < own.size(); ++step)
        together[step].insert(together[step].end(), own[step].begin(), own[step].end());
    }
    for (std::size_t step = 0; step < together.size(); ++step) {
      auto expected = alone[step];
      std::ranges::sort(expected);
      std::ranges::sort(together[step]);
      CHECK(together[step] == expected);
    }
  }
}

TEST_CASE("the last stage of a pipeline gets lengths and classes, but no tokens", "[documents]") {
  const TempDir folder;
  write_set_of_documents(folder / "t.h5", 12);
  const auto set = open_dataset(document_settings(folder / "t.h5"), 1);
  const Batch batch = set->train({.batch_size = 6, .delivery = {.inputs = false}})->next();
  CHECK((batch.tokens.empty() && batch.lengths.size() == 6 && batch.labels.size() == 6));
}

TEST_CASE("weights of classes are weights of their documents", "[documents]") {
  const TempDir folder;
  write_set_of_documents(folder / "t.h5", 12);
  const auto set = open_dataset(document_settings(folder / "t.h5"), 1);
  const auto source = set->train({.batch_size = 12, .class_weights = {1, 2, 4}});
  const Batch batch = source->next();
  REQUIRE(batch.weights.size() == 12);
  for (std::size_t i = 0; i < 12; ++i) CHECK(batch.weights[i] == std::array{1.0F, 2.0F, 4.0F}[batch.examples[i] % 3]);
}

TEST_CASE("documents are held back for validation, the same share of each class", "[documents]") {
  const TempDir folder;
  DataSettings settings = document_settings(write_set_of_documents(folder / "t.h5", 60));
  settings.validation_fraction = 0.2;
  const auto set = open_dataset(settings, 1);
  CHECK((set->info().train == 48 && set->info().validation == 12));
  CHECK(set->class_counts() == std::vector<std::int64_t>{16, 16, 16});
  auto all = documents_of_pass(*set, Split::train, 2);
  const auto held = documents_of_pass(*set, Split::validation, 1);
  all.insert(all.end(), held.begin(), held.end());
  std::ranges::sort(all);
  CHECK(all == numbers_below(60));
  const auto view = set->view();
  CHECK(documents_of_pass(*view, Split::validation, 1) == held);
}

TEST_CASE("a trained model reads documents with and without classes, and classes by their names", "[documents]") {
  const TempDir folder;
  const auto training = open_dataset(document_settings(write_set_of_documents(folder / "t.h5", 12)), 1);
  const Preprocessing trained = training->preprocessing();
  CHECK(trained.class_names == std::vector<std::string>{"a", "b", "c"});
  const auto labels_with = [&](const std::vector<std::string>& names) {
    write_set_of_documents(folder / "other.h5", 3, 0, names);
    const auto set = open_dataset(document_settings(folder / "other.h5"), 1, {}, &trained);
    const auto source = set->evaluate(Split::train, 0, 1, 3);
    const auto batch = source->next();
    return std::vector<std::int32_t>(batch->labels.begin(), batch->labels.end());
  };
  CHECK(labels_with({"c", "a", "b"}) == std::vector<std::int32_t>{2, 0, 1});
  CHECK_THAT(message_of<DataError>([&] {
               labels_with({"a", "b", "z"});
             }),
             Contains("document 2 is of class 'z', which the model was not trained on"));
  {
    hdf5::File file(folder / "bare.h5", hdf5::File::Mode::create);
    write_documents(file, "test", 5, /*labels=*/false);
    file.write_attribute("", "vocabulary", std::int64_t{11});
  }
  const auto bare = open_dataset(document_settings(folder / "bare.h5"), 1, {}, &trained);
  CHECK((bare->info().classes == 3 && bare->info().test == 5 && !bare->info().targets[2].labels));
  CHECK(bare->evaluate(Split::test, 0, 1, 5)->next()->labels.empty());
}

TEST_CASE("sets of documents that are wrong are refused", "[documents]") {
  const TempDir folder;
  const auto refusal = [&](const std::function<void(hdf5::File&)>& write) {
    {
      hdf5::File file(folder / "t.h5", hdf5::File::Mode::create);
      file.write_attribute("", "vocabulary", std::int64_t{5});
      write(file);
    }
    return message_of<DataError>([&] { open_dataset(document_settings(folder / "t.h5"), 1); });
  };
  const auto write_group = [](hdf5::File& file, std::vector<std::uint64_t> begins, std::vector<std::int64_t> labels) {
    file.write("train/tokens", std::vector<std::uint16_t>{0, 1, 2, 3});
    file.write("train/documents", begins);
    file.write("train/labels", labels);
  };
  const std::vector<std::string> names = {"a", "b"};
  CHECK_THAT(refusal([&](hdf5::File& file) {
               write_group(file, {0, 2, 4}, {0, 1});
             }),
             Contains("no attribute 'class_names'"));
  CHECK_THAT(refusal([&](hdf5::File& file) {
               write_group(file, {0, 2, 4}, {0, 1, 1});
               file.write_attribute("", "class_names", names);
             }),
             Contains("/train/labels has 3 labels, but there are 2 documents"));
  CHECK_THAT(refusal([&](hdf5::File& file) {
               write_group(file, {0, 2, 2, 4}, {0, 1, 0});
               file.write_attribute("", "class_names", names);
             }),
             Contains("document 1 has no tokens"));
  CHECK_THAT(refusal([&](hdf5::File& file) {
               write_group(file, {0, 2, 4}, {0, 2});
               file.write_attribute("", "class_names", names);
             }),
             Contains("document 1 has the label 2, but there are 2 classes"));
  CHECK_THAT(refusal([&](hdf5::File& file) {
               write_group(file, {0, 2, 3}, {0, 1});
               file.write_attribute("", "class_names", names);
             }),
             Contains("goes from 0 to 3, but must go from 0 to 4"));
}

TEST_CASE("rows of a table become documents with classes", "[documents]") {
  const TempDir folder;
  const TokensSummary made = import_texts(folder, "id,text,class\n1,\"so, it\nends\",b\n2,ab,a\n3,é,b\n",
                                          {.tokenizer = TokenizerKind::characters});
  CHECK(made.classes == std::vector<std::string>{"a", "b"});
  CHECK((made.texts == std::array<std::int64_t, 3>{3, 0, 0} && made.most_tokens == 11 && made.median_tokens == 2));
  const auto set = open_dataset(document_settings(folder / "t.h5"), 1);
  CHECK(set->class_names() == made.classes);
  CHECK((set->preprocessing().recipe.text == "text" && set->preprocessing().recipe.label == "class"));
  const auto source = set->training_part(0, 1, 3, {});
  const auto batch = source->next();
  CHECK(std::vector<std::int32_t>(batch->labels.begin(), batch->labels.end()) == std::vector<std::int32_t>{1, 0, 1});
  CHECK(std::vector<std::int32_t>(batch->lengths.begin(), batch->lengths.end()) == std::vector<std::int32_t>{4, 2, 1});
  const auto tokenizer = make_tokenizer(*set->preprocessing().tokenizer, "t.h5");
  CHECK(tokenizer->decode(batch->tokens.subspan(0, 4)) == "so, ");
  CHECK(tokenizer->decode(batch->tokens.subspan(8, 1)) == "é");
  CHECK(tokenizer->end_of_text() < 0);
}

TEST_CASE("blanks inside quotes are part of a text, those around it are not", "[documents]") {
  const TempDir folder;
  const auto made = import_texts(folder, "text,class\n  ab  ,x\n \"ab\" ,x\n\"  ab  \",y\n");
  CHECK(made.tokens[0] == 2 + 2 + 6);
  CHECK(made.most_tokens == 6);
}

TEST_CASE("rows are divided at random, or by files", "[documents]") {
  const TempDir folder;
  std::string table = "text,class\n";
  for (int i = 0; i < 40; ++i) table += "text " + std::to_string(i) + (i % 2 == 0 ? ",even\n" : ",odd\n");
  TokensOptions options;
  options.validation_fraction = 0.25;
  options.test_fraction = 0.1;
  CHECK(import_texts(folder, table, options).texts == std::array<std::int64_t, 3>{26, 10, 4});
  options = {};
  options.test_file = folder / "test.csv";
  write_file(folder / "test.csv", "text,class\nnew,none\n");
  const TokensSummary made = import_texts(folder, table, options);
  CHECK(made.texts == std::array<std::int64_t, 3>{40, 0, 1});
  CHECK(made.classes == std::vector<std::string>{"even", "none", "odd"});
  REQUIRE(made.warnings.size() == 1);
  CHECK_THAT(made.warnings[0], Contains("a class that no training text has: 'none'"));
}

TEST_CASE("tables of texts that are wrong are refused, with the place", "[documents]") {
  const TempDir folder;
  CHECK_THAT(import_refusal(folder, "text,class\nso,a\n", {.text_column = "words"}),
             Contains("--text-column 'words': there is no such column; choose from text, class"));
  CHECK_THAT(import_refusal(folder, "text,class\nso,a\n", {.label_column = "text"}),
             Contains("both name column 'text'"));
  CHECK_THAT(import_refusal(folder, "text,class\nso,a\n,b\n"), Contains("t.csv:3: column 'text': the text is empty"));
  CHECK_THAT(import_refusal(folder, "text,class\nso,a\nit,\n"),
             Contains("t.csv:3: column 'class': the class is missing"));
  CHECK_THAT(import_refusal(folder, "text,class\n\xFF,a\n"), Contains("t.csv:2: column 'text'"));
  CHECK_THAT(import_refusal(folder, "text,class\nso,a\n", {.documents = Documents::lines}),
             Contains("each row is a document"));
  CHECK_THAT(import_refusal(folder, "text,class\nso,a\n", {.split = TokenSplit::end}),
             Contains("would cut a text in two"));
  TokensOptions only_text;
  only_text.text_column = "text";
  CHECK_THAT(message_of<ConfigError>([&] { import_tokens({folder / "t.csv"}, only_text, {.path = folder / "u.h5"}); }),
             Contains("--text-column needs --label-column"));
}
