#include "unisono/data/import.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>

#include "command.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"

namespace unisono::cli {
namespace {

constexpr std::size_t kShownClasses = 10;

std::string classes_text(std::vector<std::string> names) {
  if (names.empty()) return "targets";
  const std::size_t count = names.size();
  names.resize(std::min(count, kShownClasses));
  for (std::string& name : names) name = on_one_line(name);
  return fmt::format("{} ({}{})", count_of(static_cast<std::int64_t>(count), "class"), fmt::join(names, ", "),
                     count > kShownClasses ? ", …" : "");
}

void say_sparse(const data::SparseSummary& made) {
  const std::int64_t examples = made.train + made.validation + made.test;
  fmt::print(
      "{}: {} training, {} validation and {} test examples of {} columns, {:.1f} values each{}; {}; index of the first "
      "column: {}\n",
      on_one_line(made.path), made.train, made.validation, made.test, made.columns,
      static_cast<double>(made.nonzeros) / static_cast<double>(examples), made.all_ones ? ", all of them 1" : "",
      classes_text(made.classes), made.base);
  say_warnings(made.warnings);
}

std::shared_ptr<std::vector<std::string>> add_files(Command command, const char* meaning) {
  const auto paths = std::make_shared<std::vector<std::string>>();
  command.add_option("files", *paths, meaning).required().type_name("FILE");
  return paths;
}

void add_libsvm(Command import, Chosen& chosen) {
  Command command = import.add_subcommand(
      "libsvm", "import sparse data in LIBSVM format: lines of 'label index:value …', which may be gzipped");
  const auto paths = add_files(command, "files in LIBSVM format");
  const auto output = add_output(command);
  const auto options = std::make_shared<data::LibsvmOptions>();
  add_fractions(command, *options, "examples");
  command.add_option("--columns", options->columns, "number of columns (default: from the largest index)").positive();
  command.add_choice("--base", options->base, data::kIndexBases,
                     "index of the first column; auto: 0 if it occurs, otherwise 1");
  command.add_choice("--task", options->task, data::kTasks, "kind of the labels");
  command.add_choice("--scale", options->scale, data::kSparseScalings,
                     "how a run scales columns, computed from its own training rows; files in this format are mostly "
                     "scaled already");
  command.callback(
      [=, &chosen] { chosen.alone = [=] { say_sparse(data::import_libsvm(*paths, *options, *output)); }; });
}

void say_ratings(const data::RatingsSummary& made) {
  fmt::print(
      "{}: {} training, {} validation and {} test ratings of {} items by {} users, {} times; columns separated by {}, "
      "{}\n{}\n",
      on_one_line(made.path), made.train, made.validation, made.test, made.items, made.users,
      made.times ? "with" : "without", delimiter_text(made.delimiter),
      made.header.empty() ? "no header line" : fmt::format("header line '{}'", on_one_line(made.header)),
      on_one_line(made.columns));
}

void add_ratings(Command import, Chosen& chosen) {
  Command command =
      import.add_subcommand("ratings", "import ratings: lines of 'user item rating', optionally with a time");
  const auto paths = add_files(command, "files with ratings, which may be gzipped");
  const auto output = add_output(command);
  const auto options = std::make_shared<data::RatingsOptions>();
  command
      .add_option("--delimiter", options->form.delimiter, "delimiter of the columns: auto, tab, ::, or one character")
      .capture_default_str();
  add_number_form(command, options->form);
  add_encoding(command, options->form.encoding);
  command.add_option("--columns", options->columns,
                     "which columns are used: user=…,item=…,rating=…[,time=…], each by its name or number (default: by "
                     "the names of the header line, or in this order)");
  command.add_choice("--header", options->header, data::kHeaders,
                     "whether the first line contains the names of the columns");
  command.add_choice("--split", options->split, data::kRatingSplits,
                     "how ratings are chosen for the validation and test groups");
  add_fractions(command, *options, "ratings");
  command.callback(
      [=, &chosen] { chosen.alone = [=] { say_ratings(data::import_ratings(*paths, *options, *output)); }; });
}

void say_text(const data::TextSummary& made) {
  fmt::print(
      "{}: {} training words in {} sentences, {} test words in {}; {} of {} distinct words kept, {:.1f} % of the "
      "text's {} words\n",
      on_one_line(made.path), made.train, made.train_sentences, made.test, made.test_sentences, made.vocabulary,
      made.distinct, 100.0 * static_cast<double>(made.train + made.test) / static_cast<double>(made.in_all),
      made.in_all);
}

void add_text(Command import, Chosen& chosen) {
  Command command = import.add_subcommand("text", "import text: words separated by whitespace, one sentence per line");
  const auto paths = add_files(command, "UTF-8 text files, which may be gzipped; a folder stands for all files in it");
  const auto output = add_output(command);
  const auto options = std::make_shared<data::TextOptions>();
  command.add_option("--minimum-count", options->minimum_count, "leave out words that occur fewer times than this")
      .capture_default_str()
      .positive();
  command
      .add_option("--maximum-words", options->maximum_words, "keep only this many of the most frequent words; 0: all")
      .capture_default_str()
      .not_negative();
  command.add_option("--sentence-length", options->sentence_length, "split sentences that have more words than this")
      .capture_default_str()
      .positive();
  add_encoding(command, options->encoding);
  command.add_flag("--lowercase", options->lowercase, "convert the text to lower case");
  command.add_flag("--strip-punctuation", options->strip_punctuation,
                   "leave out punctuation marks at both ends of words, and words of marks alone");
  command.add_option("--test-fraction", options->test_fraction, "share of the sentences that becomes the test group")
      .between(0.0, 1.0);
  command.add_option("--seed", options->seed, "seed of random choices").no_sign().capture_default_str();
  command.callback([=, &chosen] { chosen.alone = [=] { say_text(data::import_text(*paths, *options, *output)); }; });
}

void say_texts(const data::TokensSummary& made) {
  fmt::print("{}: {} training, {} validation and {} test texts of {}; tokenizer {} with {}\n", on_one_line(made.path),
             made.texts[0], made.texts[1], made.texts[2], classes_text(made.classes), made.tokenizer,
             count_of(made.vocabulary, "token"));
  fmt::print("half of the texts have up to {}, the longest has {}; a model sees the first data.context of them\n",
             count_of(made.median_tokens, "token"), made.most_tokens);
  say_warnings(made.warnings);
}

void say_tokens(const data::TokensSummary& made) {
  if (!made.classes.empty()) return say_texts(made);
  std::int64_t tokens = 0;
  for (const std::int64_t count : made.tokens) tokens += count;
  fmt::print("{}: {} training, {} validation and {} test tokens in {}; tokenizer {} with {}, {:.2f} bytes a token\n",
             on_one_line(made.path), made.tokens[0], made.tokens[1], made.tokens[2],
             count_of(made.documents, "document"), made.tokenizer, count_of(made.vocabulary, "token"),
             static_cast<double>(made.bytes) / static_cast<double>(tokens));
}

/// What a text is cut into.
void add_tokenizer(Command command, data::TokensOptions& options) {
  const Option kind = command.add_choice("--tokenizer", options.tokenizer, data::kTokenizers, "what a token is");
  command
      .add_option("--tokenizer-from", options.tokenizer_from,
                  "a set of tokens whose tokenizer is used, such as the training set of a model")
      .type_name("SET.h5")
      .not_empty()
      .excludes(kind);
  command.add_option("--vocabulary", options.vocabulary, "gpt2: the file vocab.json, or encoder.json")
      .type_name("FILE");
  command.add_option("--merges", options.merges, "gpt2: the file merges.txt, or vocab.bpe").type_name("FILE");
  command.add_option("--model", options.model, "sentencepiece: the file of the model").type_name("FILE");
}

void add_tokens(Command import, Chosen& chosen) {
  Command command =
      import.add_subcommand("tokens", "import text for language models, or texts with classes, as numbers of tokens");
  const auto paths = add_files(command, "text files, which may be gzipped; a folder stands for all files in it");
  const auto output = add_output(command);
  const auto options = std::make_shared<data::TokensOptions>();
  add_tokenizer(command, *options);
  command
      .add_option("--text-column", options->text_column,
                  "the files are CSV tables, and each row is a text with a class, for classifiers: the column of "
                  "the texts, by its name, or by its number if the first line holds no names")
      .not_empty();
  command.add_option("--label-column", options->label_column, "the column of the texts' classes, likewise").not_empty();
  command
      .add_option("--delimiter", options->delimiter,
                  "delimiter of the columns of such tables: auto, tab, or one character")
      .capture_default_str();
  command.add_choice("--documents", options->documents, data::kDocuments, "what a document is");
  command
      .add_option("--document-separator", options->separator,
                  "text between two documents of a file, which is left out, such as '<|endoftext|>'")
      .type_name("TEXT")
      .not_empty();
  add_encoding(command, options->encoding);
  command.add_choice("--split", options->split, data::kTokenSplits,
                     "which part of the text becomes the validation and test groups");
  add_fractions(command, *options, "texts");
  command.add_option("--validation-file", options->validation_file, "file whose text becomes the validation group")
      .type_name("FILE")
      .not_empty();
  command.callback(
      [=, &chosen] { chosen.alone = [=] { say_tokens(data::import_tokens(*paths, *options, *output)); }; });
}

}  // namespace

std::string delimiter_text(const std::string& delimiter) {
  if (delimiter == " ") return "spaces";
  return delimiter == "\t" ? "tabs" : fmt::format("'{}'", delimiter);
}

void add_sparse_imports(Command import, Chosen& chosen) {
  add_libsvm(import, chosen);
  add_ratings(import, chosen);
  add_text(import, chosen);
  add_tokens(import, chosen);
}

void add_cooccurrences(Command data, Chosen& chosen) {
  Command command =
      data.add_subcommand("cooccurrences", "count how often words of a text set occur near each other (for GloVe)");
  const auto path = std::make_shared<std::string>();
  command.add_option("text", *path, "data set made by 'import text'").required().type_name("FILE.h5");
  const auto output = add_output(command);
  const auto options = std::make_shared<data::CooccurrenceOptions>();
  command
      .add_option("--window", options->window,
                  "number of words on each side that are counted, each with weight 1/distance")
      .capture_default_str()
      .positive();
  command
      .add_option("--symmetric", options->symmetric,
                  "yes: count both orders of a pair; no: only with the left word as row and the right word as column")
      .yes_or_no()
      .default_str("yes")
      .type_name("yes|no");
  command
      .add_option("--memory", options->memory_bytes,
                  "memory for counting, e.g. 512MiB; what does not fit is written to temporary files")
      .size()
      .default_str("4GiB");
  command.add_option("--seed", options->seed, "seed of the order of the entries").no_sign().capture_default_str();
  command.add_flag("--external-files", options->external_files, "the text set may refer to values in other files");
  command.callback([=, &chosen] {
    chosen.alone = [=] {
      const data::CooccurrenceSummary made = data::count_cooccurrences(*path, *options, *output);
      fmt::print("{}: {} entries of {} words, counted in {} run{}\n", on_one_line(made.path), made.entries,
                 made.vocabulary, made.runs, made.runs == 1 ? "" : "s");
    };
  });
}

}  // namespace unisono::cli
