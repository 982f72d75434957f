#include "tokenizer/word_pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <string>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

// Unicode's White_Space, because PCRE2's \s has U+180E as well. What cannot match otherwise gives nothing back (++).
#define UNISONO_BLANKS R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
constexpr const char* kPattern = "'(?:[stmd]|re|ve|ll)| ?\\p{L}++| ?\\p{N}++| ?[^" UNISONO_BLANKS
                                 "\\p{L}\\p{N}]++|[" UNISONO_BLANKS "]+(?![^" UNISONO_BLANKS "])|[" UNISONO_BLANKS "]+";
#undef UNISONO_BLANKS

[[noreturn]] void fail(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  throw DataError(fmt::format("the text cannot be cut into words: PCRE2: {}", reinterpret_cast<char*>(text.data())));
}

}  // namespace

struct WordPattern::Compiled {
  pcre2_code* code = nullptr;
  ~Compiled() { pcre2_code_free(code); }
};

WordPattern::WordPattern() : compiled_(std::make_unique<Compiled>()) {
  int error = 0;
  PCRE2_SIZE place = 0;
  compiled_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                  &error, &place, nullptr);
  if (compiled_->code == nullptr) fail(error);
  pcre2_jit_compile(compiled_->code, PCRE2_JIT_COMPLETE);  // where it cannot be, matching is slower
}

WordPattern::~WordPattern() = default;

void WordPattern::cut(std::string_view text, const std::function<void(std::string_view)>& visit) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create_from_pattern(compiled_->code, nullptr), pcre2_match_data_free);
  const PCRE2_SIZE* const bounds = pcre2_get_ovector_pointer(match.get());
  for (std::size_t at = 0; at < text.size(); at = bounds[1]) {
    const int found = pcre2_match(compiled_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                  PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED, match.get(), nullptr);
    if (found < 0) fail(found);
    visit(text.substr(at, bounds[1] - at));
  }
}

}  // namespace unisono::data
