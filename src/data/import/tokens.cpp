#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "import/document_reader.hpp"
#include "import/raw_formats.hpp"
#include "import/read_text.hpp"
#include "import/set_writer.hpp"
#include "import/spill.hpp"
#include "tokenizer/kinds.hpp"
#include "tokenizer/utf8.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kCodePoints = 0x110000;

void refuse(bool wrong, const std::string& message) {
  if (wrong) throw ConfigError(message);
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
  refuse(options.documents == Documents::lines && !options.separator.empty(),
         "--documents lines and --document-separator cannot be combined");
  refuse(!options.validation_file.empty() && options.validation_fraction > 0,
         "--validation-file and --validation-fraction cannot be combined");
  check_shares({options.validation_fraction, options.test_fraction, options.seed}, "text", options.test_file);
}

/// The tokenizer that is asked for; null: characters, which are those of the text.
std::unique_ptr<Tokenizer> chosen_tokenizer(const TokensOptions& options) {
  if (options.known) return make_tokenizer(*options.known, "the model's tokenizer");
  if (!options.tokenizer_from.empty()) return tokenizer_of_set(options.tokenizer_from);
  switch (options.tokenizer) {
    case TokenizerKind::bytes:
      return byte_tokenizer(false);
    case TokenizerKind::gpt2:
      return read_gpt2_tokenizer(options.vocabulary, options.merges);
    case TokenizerKind::sentencepiece:
      return read_sentencepiece_tokenizer(options.model);
    case TokenizerKind::characters:
      break;
  }
  return nullptr;
}

/// Texts as tokens, set aside on the disk; those of characters that are still to be numbered as their code points.
class ReadTokens {
 public:
  ReadTokens(const TokensOptions& options, const std::string& beside)
      : options_(options), tokenizer_(chosen_tokenizer(options)), numbers_(beside) {}

  /// Reads a file's documents behind those that were read so far.
  void read(const std::string& path);
  /// Numbers the characters, and adds the token of the end of a text where one is needed and the tokenizer may be
  /// changed. \param several whether a group has several documents
  void complete(bool several);

  const std::vector<std::uint64_t>& ends() const { return ends_; }  ///< where each document ends
  std::uint64_t bytes() const { return bytes_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const SpillFile& numbers() const { return numbers_; }
  std::uint32_t token_of(std::uint32_t number) const {
    return token_of_code_.empty() ? number : token_of_code_[number];
  }

 private:
  bool needs_utf8() const { return tokenizer_ == nullptr || tokenizer_->kind() != TokenizerKind::bytes; }
  void check(const DocumentReader& reader, const DocumentReader::Piece& piece) const;
  void add(const DocumentReader& reader, const DocumentReader::Piece& piece);
  void add_code_points(std::string_view text);

  const TokensOptions& options_;
  std::unique_ptr<Tokenizer> tokenizer_;  ///< null until it is complete: characters of the text
  SpillFile numbers_;                     ///< uint32
  std::uint64_t count_ = 0, bytes_ = 0;
  std::vector<std::uint64_t> ends_;
  std::vector<bool> occurs_ = std::vector<bool>(kCodePoints);  ///< by code point
  std::vector<std::uint32_t> token_of_code_;
};

void ReadTokens::read(const std::string& path) {
  DocumentReader reader(as_utf8(open_bytes(path), options_.encoding), options_, [this](std::string_view text) {
    return tokenizer_ == nullptr ? whole_characters(text) : tokenizer_->separable(text);
  });
  if (needs_utf8()) reader.skip_mark();
  for (DocumentReader::Piece piece; reader.next(piece);) {
    check(reader, piece);
    add(reader, piece);
    if (piece.ends_document) ends_.push_back(count_);
  }
  numbers_.flush();
}

void ReadTokens::check(const DocumentReader& reader, const DocumentReader::Piece& piece) const {
  if (!needs_utf8()) return;
  const std::size_t invalid = find_invalid_utf8(piece.text);
  if (invalid == std::string_view::npos) return;
  throw DataError(fmt::format("{}: byte {}: {}; or take --tokenizer bytes", reader.name(), piece.place + invalid + 1,
                              not_utf8(piece.text[invalid])));
}

void ReadTokens::add(const DocumentReader& reader, const DocumentReader::Piece& piece) {
  bytes_ += piece.text.size();
  if (tokenizer_ == nullptr) return add_code_points(piece.text);
  try {
    const std::vector<std::int32_t> tokens = tokenizer_->encode(piece.text);
    numbers_.append(std::span<const std::int32_t>(tokens));
    count_ += tokens.size();
  } catch (const DataError& error) {
    throw DataError(fmt::format("{}: in the text from byte {} on: {}", reader.name(), piece.place + 1, error.what()));
  }
}

void ReadTokens::add_code_points(std::string_view text) {
  std::vector<std::uint32_t> codes;
  codes.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    codes.push_back(character.code);
    occurs_[character.code] = true;
    at += character.bytes;
  }
  numbers_.append(std::span<const std::uint32_t>(codes));
  count_ += codes.size();
}

void ReadTokens::complete(bool several) {
  if (tokenizer_ != nullptr) {
    const bool is_new =
        options_.tokenizer_from.empty() && !options_.known && tokenizer_->kind() == TokenizerKind::bytes;
    if (is_new && several) tokenizer_ = byte_tokenizer(true);
    return;
  }
  std::string characters;
  std::uint32_t token = 0;
  token_of_code_.resize(kCodePoints);
  for (std::size_t code = 0; code < kCodePoints; ++code) {
    if (!occurs_[code]) continue;
    append_character(characters, static_cast<char32_t>(code));
    token_of_code_[code] = token++;
  }
  tokenizer_ = character_tokenizer(characters, several);
}

/// A part of a document that is in one group.
struct Part {
  Split split = Split::train;
  std::uint64_t begin = 0, end = 0;  ///< of the numbers that were set aside
  bool closes = false;               ///< whether the token of the end of a text follows
  std::uint64_t size() const { return end - begin + (closes ? 1 : 0); }
};

/// What is written, in the order of the text.
struct TokensPlan {
  std::vector<Part> parts;
  std::array<std::int64_t, 3> tokens{}, documents{};

  void add(const Part& part) {
    if (part.size() == 0) return;
    const auto group = static_cast<std::size_t>(part.split);
    parts.push_back(part);
    tokens[group] += static_cast<std::int64_t>(part.size());
    ++documents[group];
  }
};

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

std::vector<Part> documents_of(const ReadTokens& text, std::size_t first, std::size_t last, bool closes) {
  std::vector<Part> documents;
  for (std::size_t i = first; i < last; ++i) {
    documents.push_back({.begin = i == 0 ? 0 : text.ends()[i - 1], .end = text.ends()[i], .closes = closes});
  }
  return documents;
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
  const RandomSplit split(std::ssize(documents), {options.validation_fraction, options.test_fraction, options.seed});
  std::int64_t number = 0;
  for (Part document : documents) {
    document.split = split.of(number++);
    plan.add(document);
  }
}

/// Writes a group's tokens, and where its documents begin.
template <typename T>
class TokenWriter {
 public:
  TokenWriter(SetWriter& writer, Split split, const TokensPlan& plan)
      : tokens_(writer, fmt::format("{}/tokens", name_of(split)),
                static_cast<std::uint64_t>(plan.tokens[static_cast<std::size_t>(split)])) {
    const auto documents = static_cast<std::uint64_t>(plan.documents[static_cast<std::size_t>(split)]);
    if (documents < 2) return;
    begins_.emplace(writer, fmt::format("{}/documents", name_of(split)), documents + 1);
    begins_->add(0);
  }

  void add(std::uint32_t token) {
    tokens_.add(static_cast<T>(token));
    ++count_;
  }
  void end_document() {
    if (begins_) begins_->add(count_);
  }
  void finish() {
    tokens_.finish();
    if (begins_) begins_->finish();
  }

 private:
  ColumnWriter<T> tokens_;
  std::optional<ColumnWriter<std::uint64_t>> begins_;
  std::uint64_t count_ = 0;
};

template <typename T>
void write_groups(const ReadTokens& text, const TokensPlan& plan, SetWriter& writer) {
  std::array<std::optional<TokenWriter<T>>, 3> groups;
  for (const Split split : kSplits) {
    const auto i = static_cast<std::size_t>(split);
    if (plan.tokens[i] > 0) groups[i].emplace(writer, split, plan);
  }
  constexpr std::size_t kAtATime = 1 << 20;  // bytes
  const auto end = static_cast<std::uint32_t>(text.tokenizer().end_of_text());
  SpillReader numbers(text.numbers(), 0, text.numbers().bytes(), kAtATime);
  for (const Part& part : plan.parts) {  // in the order of the numbers
    TokenWriter<T>& group = *groups[static_cast<std::size_t>(part.split)];
    for (std::uint64_t i = part.begin; i < part.end; ++i) {
      std::uint32_t number = 0;
      numbers.next(number);
      group.add(text.token_of(number));
    }
    if (part.closes) group.add(end);
    group.end_document();
  }
  for (auto& group : groups) {
    if (group) group->finish();
  }
}

/// \throws ConfigError where a part that was asked for has no token
void require_parts(const TokensPlan& plan, const TokensOptions& options) {
  const auto require = [&](Split split, bool wanted, std::string_view why) {
    if (!wanted || plan.tokens[static_cast<std::size_t>(split)] > 0) return;
    throw ConfigError(fmt::format("the text has {}, of which none are left for the group '{}'; {}",
                                  count_of(plan.tokens[0] + plan.tokens[1] + plan.tokens[2], "token"), name_of(split),
                                  why));
  };
  require(Split::train, true, "use smaller fractions");
  require(Split::validation, options.validation_fraction > 0, "use a larger --validation-fraction");
  require(Split::test, options.test_fraction > 0, "use a larger --test-fraction");
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

void write_set(const ReadTokens& text, const TokensPlan& plan, SetWriter& writer) {
  const Index vocabulary = text.tokenizer().vocabulary();
  constexpr Index kMostOf16Bits = 1 << 16;
  vocabulary <= kMostOf16Bits ? write_groups<std::uint16_t>(text, plan, writer)
                              : write_groups<std::uint32_t>(text, plan, writer);
  writer.file().write_attribute("", "vocabulary", std::int64_t{vocabulary});
  write_tokenizer(writer.file(), *text.tokenizer().parts());
  writer.finish();
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
  write_set(text, plan, writer);
  return "";
}

TokensSummary import_tokens(const std::vector<std::string>& paths, const TokensOptions& options,
                            const ImportOutput& output) {
  check_options(options);
  const std::vector<std::string> files = list_files(paths);
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
  write_set(text, plan, writer);
  return {.path = output.path,
          .tokens = plan.tokens,
          .documents = std::ssize(text.ends()),
          .bytes = static_cast<std::int64_t>(text.bytes()),
          .vocabulary = text.tokenizer().vocabulary(),
          .tokenizer = std::string(text.tokenizer().name()),
          .split = divides_documents(options, documents[0]) ? TokenSplit::documents : TokenSplit::end};
}

}  // namespace unisono::data
