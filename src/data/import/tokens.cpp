#include <fmt/format.h>

#include <array>
#include <cmath>
#include <utility>

#include "import/raw_formats.hpp"
#include "import/read_text.hpp"
#include "import/read_tokens.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

void refuse(bool wrong, const std::string& message) {
  if (wrong) throw ConfigError(message);
}

bool are_tables(const TokensOptions& options) { return !options.text_column.empty(); }

void check_columns(const TokensOptions& options) {
  refuse(are_tables(options) && options.label_column.empty(),
         "--text-column needs --label-column, the column of the texts' classes");
  refuse(!are_tables(options) && !options.label_column.empty(),
         "--label-column needs --text-column, the column of the texts");
  refuse(!are_tables(options) && options.delimiter != "auto", "--delimiter is for tables; add --text-column");
  refuse(are_tables(options) && (options.documents == Documents::lines || !options.separator.empty()),
         "--documents and --document-separator cannot be combined with --text-column: each row is a document");
  refuse(are_tables(options) && options.split == TokenSplit::end,
         "--split end would cut a text in two; rows of a table are divided by --split documents");
}

void check_options(const TokensOptions& options) {
  const bool from_set = !options.tokenizer_from.empty();
  const auto is = [&](TokenizerKind kind) { return !from_set && options.tokenizer == kind; };
  const bool is_gpt2 = is(TokenizerKind::gpt2), is_model = is(TokenizerKind::sentencepiece);
  refuse(is_gpt2 && (options.vocabulary.empty() || options.merges.empty()),
         "--tokenizer gpt2 needs its files: --vocabulary vocab.json --merges merges.txt");
  refuse(!is_gpt2 && !(options.vocabulary.empty() && options.merges.empty()),
         "--vocabulary and --merges are for --tokenizer gpt2; remove them");
  refuse(is_model && options.model.empty(), "--tokenizer sentencepiece needs its file: --model FILE.model");
  refuse(!is_model && !options.model.empty(), "--model is for --tokenizer sentencepiece; remove it");
  check_columns(options);
  refuse(options.documents == Documents::lines && !options.separator.empty(),
         "--documents lines and --document-separator cannot be combined");
  refuse(!options.validation_file.empty() && options.validation_fraction > 0,
         "--validation-file and --validation-fraction cannot be combined");
  check_shares(shares_of(options), "text", options.test_file);
}
/// Where the parts for validation and testing begin in a text of so many tokens: behind ⌊(1 − fraction) · tokens⌋.
std::array<std::uint64_t, 2> cuts_of(std::uint64_t tokens, const TokensOptions& options) {
  const auto kept = [&](double fraction) {
    return static_cast<std::uint64_t>(std::floor((1 - fraction) * static_cast<double>(tokens)));
  };
  return {kept(options.validation_fraction + options.test_fraction), kept(options.test_fraction)};
}

/// Cuts the text at two places: what stands before the first is for training, what stands behind the last for testing.
void divide_text(const std::vector<Part>& documents, const std::array<std::uint64_t, 2>& cuts, TokensPlan& plan) {
  std::uint64_t before = 0;  // tokens of the documents before
  for (const Part& document : documents) {
    std::uint64_t taken = 0;
    for (const Split split : kSplits) {
      const auto i = static_cast<std::size_t>(split);
      const std::uint64_t limit = i < cuts.size() ? cuts[i] : before + document.size();
      const std::uint64_t end = std::min(document.size(), std::max(limit, before + taken) - before);
      const std::uint64_t numbers = document.end - document.begin;
      plan.add({.split = split,
                .begin = document.begin + std::min(taken, numbers),
                .end = document.begin + std::min(end, numbers),
                .closes = document.closes && taken < document.size() && end == document.size()});
      taken = end;
    }
    before += document.size();
  }
}
bool divides_documents(const TokensOptions& options, std::size_t documents) {
  if (options.split != TokenSplit::automatic) return options.split == TokenSplit::documents;
  return documents > 1;
}

void divide(const std::vector<Part>& documents, const TokensOptions& options, TokensPlan& plan) {
  if (!divides_documents(options, documents.size())) {
    std::uint64_t tokens = 0;
    for (const Part& document : documents) tokens += document.size();
    return divide_text(documents, cuts_of(tokens, options), plan);
  }
  const RandomSplit split(std::ssize(documents), shares_of(options));
  std::int64_t number = 0;
  for (Part document : documents) {
    document.split = split.of(number++);
    plan.add(document);
  }
}
/// How many documents there are behind the text, the file for validation and that for testing.
std::array<std::size_t, 3> read_all(const std::vector<std::string>& files, const TokensOptions& options,
                                    ReadTokens& text) {
  std::array<std::size_t, 3> documents{};
  for (const std::string& path : files) text.read(path);
  documents[0] = text.ends().size();
  if (documents[0] == 0) throw DataError(files.front() + ": holds no text");
  for (const std::size_t group : {1, 2}) {
    const std::string& path = group == 1 ? options.validation_file : options.test_file;
    if (!path.empty()) text.read(path);
    documents[group] = text.ends().size();
    if (!path.empty() && documents[group] == documents[group - 1]) throw DataError(path + ": holds no text");
  }
  return documents;
}
}  // namespace

std::string write_raw_text(const std::string& path, const RawForm& form, const ImportOutput& output) {
  if (form.preprocessing.tokenizer == nullptr) {
    throw DataError(
        fmt::format("{}: the model's training set named no tokenizer, so that texts cannot be read; use an "
                    "HDF5 set of tokens with --data",
                    path));
  }
  TokensOptions options;
  options.known = form.preprocessing.tokenizer;
  if (!form.preprocessing.recipe.text.empty()) return write_raw_texts(path, form.preprocessing, options, output);
  SetWriter writer(output);
  ReadTokens text(options, output.path);
  const std::size_t documents = read_all(list_files({path}), options, text)[0];
  const bool closes = documents > 1 && text.tokenizer().end_of_text() >= 0;
  text.complete(/*several=*/false);
  TokensPlan plan;
  for (Part document : documents_of(text, 0, documents, closes)) {
    document.split = Split::test;
    plan.add(document);
  }
  write_tokens(text, plan, writer);
  writer.finish();
  return "";
}

TokensSummary import_tokens(const std::vector<std::string>& paths, const TokensOptions& options,
                            const ImportOutput& output) {
  check_options(options);
  const std::vector<std::string> files = list_files(paths);
  if (are_tables(options)) return import_tables(files, options, output);
  SetWriter writer(output);
  ReadTokens text(options, output.path);
  const auto documents = read_all(files, options, text);
  const bool several = documents[0] > 1 || documents[1] > documents[0] + 1 || documents[2] > documents[1] + 1;
  text.complete(several);
  const bool closes = several && text.tokenizer().end_of_text() >= 0;
  TokensPlan plan;
  divide(documents_of(text, 0, documents[0], closes), options, plan);
  for (const Split split : {Split::validation, Split::test}) {
    const auto i = static_cast<std::size_t>(split);
    for (Part document : documents_of(text, documents[i - 1], documents[i], closes)) {
      document.split = split;
      plan.add(document);
    }
  }
  require_parts(plan, options);
  write_tokens(text, plan, writer);
  writer.finish();
  return {.path = output.path,
          .tokens = plan.tokens,
          .documents = std::ssize(text.ends()),
          .bytes = static_cast<std::int64_t>(text.bytes()),
          .vocabulary = text.tokenizer().vocabulary(),
          .tokenizer = std::string(text.tokenizer().name()),
          .split = divides_documents(options, documents[0]) ? TokenSplit::documents : TokenSplit::end};
}

}  // namespace unisono::data
