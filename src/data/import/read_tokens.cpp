#include "import/read_tokens.hpp"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <utility>

#include "import/read_text.hpp"
#include "tokenizer/kinds.hpp"
#include "tokenizer/utf8.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kCodePoints = 0x110000;

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

}  // namespace

ReadTokens::ReadTokens(const TokensOptions& options, const std::string& beside)
    : options_(options), tokenizer_(chosen_tokenizer(options)), numbers_(beside), occurs_(kCodePoints) {}

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

void ReadTokens::read_table(TextTable& table,
                            const std::function<void(const LineReader& line, const std::string& name)>& label) {
  table.read([&](const LineReader& line, const std::string& text, const std::string& name) {
    const std::uint64_t before = count_;
    try {
      add(text);
    } catch (const DataError& error) {
      fail_at(line, table.text(), error.what());
    }
    if (count_ == before) fail_at(line, table.text(), "the tokenizer makes no token of it; leave out the row");
    ends_.push_back(count_);
    label(line, name);
  });
  numbers_.flush();
}

void ReadTokens::check(const DocumentReader& reader, const DocumentReader::Piece& piece) const {
  if (!needs_utf8()) return;
  const std::size_t invalid = find_invalid_utf8(piece.text);
  if (invalid == std::string_view::npos) return;
  throw DataError(fmt::format("{}: byte {}: {}; or take --tokenizer bytes", reader.name(), piece.place + invalid + 1,
                              not_utf8(piece.text[invalid])));
}

void ReadTokens::add(std::string_view text) {
  bytes_ += text.size();
  if (tokenizer_ == nullptr) return add_code_points(text);
  const std::vector<std::int32_t> tokens = tokenizer_->encode(text);
  numbers_.append(std::span<const std::int32_t>(tokens));
  count_ += tokens.size();
}

void ReadTokens::add(const DocumentReader& reader, const DocumentReader::Piece& piece) {
  try {
    add(piece.text);
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

std::vector<Part> documents_of(const ReadTokens& text, std::size_t first, std::size_t last, bool closes) {
  std::vector<Part> documents;
  for (std::size_t i = first; i < last; ++i) {
    documents.push_back({.begin = i == 0 ? 0 : text.ends()[i - 1], .end = text.ends()[i], .closes = closes});
  }
  return documents;
}

namespace {

/// Writes a group's tokens, and where its documents begin.
template <typename T>
class TokenWriter {
 public:
  TokenWriter(SetWriter& writer, Split split, const TokensPlan& plan)
      : tokens_(writer, fmt::format("{}/tokens", name_of(split)),
                static_cast<std::uint64_t>(plan.tokens[static_cast<std::size_t>(split)])) {
    const auto documents = static_cast<std::uint64_t>(plan.documents[static_cast<std::size_t>(split)]);
    if (documents < 2 && !plan.keeps_documents) return;
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

}  // namespace

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

void write_tokens(const ReadTokens& text, const TokensPlan& plan, SetWriter& writer) {
  const Index vocabulary = text.tokenizer().vocabulary();
  constexpr Index kMostOf16Bits = 1 << 16;
  vocabulary <= kMostOf16Bits ? write_groups<std::uint16_t>(text, plan, writer)
                              : write_groups<std::uint32_t>(text, plan, writer);
  writer.file().write_attribute("", "vocabulary", std::int64_t{vocabulary});
  write_tokenizer(writer.file(), *text.tokenizer().parts());
}

}  // namespace unisono::data
