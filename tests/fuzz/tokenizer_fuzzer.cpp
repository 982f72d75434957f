// Tokenizers of any files, and any texts. An input is a vocabulary in JSON, the lines of merges, a separator of
// documents and a text, with zero bytes between them. The files are read or refused with a data error; what a tokenizer
// makes of a text stands for that text; documents are what stands between separators, wherever blocks end.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "import/document_reader.hpp"
#include "import/rows.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/tokenizer.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// A file in memory.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : file_(memfd_create("tokenizer", MFD_CLOEXEC)) {
    require(file_ >= 0 && write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

/// What stands before the next zero byte; it and the byte are taken away.
std::string_view take(std::string_view& input) {
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string_view part = input.substr(0, end);
  input.remove_prefix(std::min(end + 1, input.size()));
  return part;
}

void check_text(const unisono::data::Tokenizer& tokenizer, std::string_view text) {
  try {
    const auto tokens = tokenizer.encode(text);
    require(tokenizer.decode(tokens) == text);
    std::size_t bytes = 0;
    for (const std::int32_t token : tokens) bytes += static_cast<std::size_t>(tokenizer.token_bytes(token));
    require(bytes == text.size());
    const std::size_t cut = tokenizer.separable(text);
    auto parts = tokenizer.encode(text.substr(0, cut));
    const auto rest = tokenizer.encode(text.substr(cut));
    parts.insert(parts.end(), rest.begin(), rest.end());
    require(parts == tokens);
  } catch (const unisono::DataError&) {
    require(unisono::data::find_invalid_utf8(text) != std::string_view::npos);
  }
}

void check_files(std::string_view vocabulary, std::string_view merges, std::string_view text) {
  const MemoryFile first(vocabulary), second(merges);
  std::unique_ptr<unisono::data::Tokenizer> tokenizer;
  try {
    tokenizer = unisono::data::read_gpt2_tokenizer(first.path(), second.path());
  } catch (const unisono::DataError&) {
    return;
  }
  check_text(*tokenizer, text);
}

/// The documents of a text, joined from their pieces.
std::vector<std::string> documents_of(std::string_view text, const unisono::data::TokensOptions& options,
                                      std::size_t longest) {
  unisono::data::DocumentReader reader(
      unisono::data::bytes_of(text, "fuzzed"), options,
      [longest](std::string_view beginning) { return std::min(beginning.size(), longest); });
  std::vector<std::string> documents(1);
  for (unisono::data::DocumentReader::Piece piece; reader.next(piece);) {
    require(text.substr(piece.place, piece.text.size()) == piece.text);
    documents.back() += piece.text;
    if (piece.ends_document) documents.emplace_back();
  }
  require(documents.back().empty());
  documents.pop_back();
  return documents;
}

void check_documents(std::string_view text, const std::string& separator) {
  std::vector<std::string> expected;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = separator.empty() ? std::string_view::npos : rest.find(separator);
    const std::string_view document = rest.substr(0, end);
    if (!document.empty()) expected.emplace_back(document);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + separator.size());
  }
  const unisono::data::TokensOptions options{.separator = separator};
  require(documents_of(text, options, text.size()) == expected);
  // Many copies go beyond the blocks that are read at a time.
  if (text.size() < 64 || text.size() > 4096) return;
  std::string many;
  while (many.size() < (3U << 20)) many += text;
  std::vector<std::string> first = documents_of(many, options, many.size());
  require(first == documents_of(many, options, 1U << 19));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::string_view vocabulary = take(input), merges = take(input);
  const std::string separator(take(input));
  check_files(vocabulary, merges, input);
  check_text(*unisono::data::byte_tokenizer(size % 2 == 0), input);
  if (!input.empty() && unisono::data::find_invalid_utf8(input) == std::string_view::npos) {
    check_text(*unisono::data::character_tokenizer(input, size % 2 == 0), input);
  }
  check_documents(input, separator);
  return 0;
}
