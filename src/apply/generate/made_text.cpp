#include "generate/made_text.hpp"

#include <algorithm>
#include <utility>

namespace unisono::apply {
namespace {

/// The bytes of the UTF-8 character that begins with this one; 1 for what begins none.
std::size_t character_bytes(unsigned char first) {
  if (first >= 0xF0 && first < 0xF8) return 4;
  if (first >= 0xE0) return first < 0xF0 ? 3 : 1;
  return first >= 0xC2 ? 2 : 1;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80; }

/// How many of the text's last bytes are the beginning of `stop`, without being all of it.
std::size_t overlap(std::string_view text, std::string_view stop) {
  for (std::size_t bytes = std::min(text.size(), stop.size() - 1); bytes > 0; --bytes) {
    if (text.ends_with(stop.substr(0, bytes))) return bytes;
  }
  return 0;
}

}  // namespace

std::size_t finished_bytes(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::size_t last = text.size();
  while (last > 0 && text.size() - last < 3 && is_continuation(text[last - 1])) --last;
  if (last > 0 && character_bytes(static_cast<unsigned char>(text[last - 1])) > text.size() - last + 1) {
    text = text.substr(0, last - 1);
  }
  while (text.ends_with(kReplacement)) text.remove_suffix(kReplacement.size());
  return text.size();
}

MadeText::MadeText(const data::Tokenizer& tokenizer, std::vector<std::int32_t> prompt,
                   const std::vector<std::string>& stops)
    : tokenizer_(tokenizer), stops_(stops), all_(std::move(prompt)), prompt_bytes_(tokenizer.decode(all_).size()) {}

/// A SentencePiece model drops the blank before a text's first piece: it must see the whole text.
void MadeText::decode(std::int32_t token) {
  made_.push_back(token);
  if (tokenizer_.kind() != data::TokenizerKind::sentencepiece) {
    text_ += tokenizer_.decode({&token, 1});
    return;
  }
  all_.push_back(token);
  const std::string whole = tokenizer_.decode(all_);
  text_ = whole.substr(std::min(prompt_bytes_, whole.size()));
}

bool MadeText::add(std::int32_t token) {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) longest = std::max(longest, stop.size());
  const std::size_t before = text_.size();
  decode(token);
  ended_ = cut_at_stop(before - std::min(before, longest));
  return ended_;
}

bool MadeText::cut_at_stop(std::size_t from) {
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, text_.find(stop, from));
  if (first == std::string::npos) return false;
  text_.resize(first);
  return true;
}

std::size_t MadeText::certain_bytes() const {
  if (ended_) return text_.size();
  std::size_t held = 0;
  for (const std::string& stop : stops_) held = std::max(held, overlap(text_, stop));
  return finished_bytes(std::string_view(text_).substr(0, text_.size() - held));
}

std::string MadeText::take() {
  const std::size_t from = std::min(taken_, text_.size());
  taken_ = std::max(from, certain_bytes());
  return text_.substr(from, taken_ - from);
}

}  // namespace unisono::apply
