#include "generate/texts.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace unisono::apply {
namespace {

using kernels::DecodeRow;

/// A text that is being made, in one of the decoder's sequences.
class Text {
 public:
  Text(std::size_t prompt, const std::vector<std::int32_t>& tokens, Index context, const data::Tokenizer& tokenizer,
       const TextRule& rule)
      : prompt_(prompt), window_(tokens, context), made_(tokenizer, tokens, rule.stops), rule_(rule) {}

  Window& window() { return window_; }
  std::size_t prompt() const { return prompt_; }
  std::string take() { return made_.take(); }

  /// Draws the next token. \param end_of_text the token that ends texts; −1: none
  void add(Sampler& sampler, View logits, std::int32_t end_of_text) {
    const auto place = static_cast<std::uint32_t>(made_.tokens().size());
    const DrawnToken drawn = sampler.draw(logits, window_.tokens(), prompt_, place);
    log_probabilities_.push_back(drawn.log_probability);
    window_.append(drawn.token);
    const bool stops = made_.add(drawn.token);
    if (drawn.token == end_of_text) {
      end_ = TextEnd::end_of_text;
    } else if (stops) {
      end_ = TextEnd::stop;
    } else if (std::ssize(made_.tokens()) >= rule_.tokens) {
      end_ = TextEnd::length;
    }
    if (end_) made_.finish();
  }

  bool has_ended() const { return end_.has_value(); }
  GeneratedText result() const { return {prompt_, made_.text(), made_.tokens(), log_probabilities_, *end_}; }

 private:
  std::size_t prompt_;
  Window window_;
  MadeText made_;
  const TextRule& rule_;
  std::vector<double> log_probabilities_;
  std::optional<TextEnd> end_;
};

/// Each of the decoder's sequences has a text or is free.
class Texts {
 public:
  Texts(nn::Decoder& decoder, const data::Tokenizer& tokenizer)
      : decoder_(decoder),
        tokenizer_(tokenizer),
        texts_(static_cast<std::size_t>(decoder.sequences())),
        logits_(decoder.sequences() * decoder.vocabulary()) {}

  /// Gives a prompt to a free sequence. \return whether there was one
  bool begin(std::size_t prompt, const std::vector<std::int32_t>& tokens, const TextRule& rule) {
    const auto free = std::find(texts_.begin(), texts_.end(), nullptr);
    if (free == texts_.end()) return false;
    *free = std::make_unique<Text>(prompt, tokens, decoder_.context(), tokenizer_, rule);
    return true;
  }

  /// One more token for each text. \return whether there are any texts
  bool step(Sampler& sampler, const TextReaders& readers) {
    compute();
    bool any = false;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      if (texts_[i] == nullptr) continue;
      any = true;
      texts_[i]->add(sampler, logits_of(i), tokenizer_.end_of_text());
      readers.piece(texts_[i]->prompt(), texts_[i]->take());
      if (!texts_[i]->has_ended()) continue;
      readers.text(texts_[i]->result());
      texts_[i] = nullptr;
    }
    return any;
  }

 private:
  MutableView logits_of(std::size_t sequence) {
    const auto size = static_cast<std::size_t>(decoder_.vocabulary());
    return logits_.view().subspan(sequence * size, size);
  }

  /// The logits of each text's last position: of several texts together where each has one new token; else, at the
  /// beginning and where a window has moved on, text by text.
  void compute() {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      if (texts_[i] == nullptr) continue;
      if (texts_[i]->window().pending().size() == 1) {
        ready.push_back(i);
      } else {
        read(i);
      }
    }
    extend(ready);
  }

  void read(std::size_t sequence) {
    Window& window = texts_[sequence]->window();
    const std::span<const std::int32_t> tokens = window.pending();
    for (std::size_t first = 0; first < tokens.size();) {
      const auto count = std::min(tokens.size() - first, static_cast<std::size_t>(decoder_.most_rows()));
      std::vector<DecodeRow> rows;
      for (std::size_t i = 0; i < count; ++i) {
        rows.push_back({static_cast<Index>(sequence), window.position() + static_cast<Index>(first + i)});
      }
      const bool last = first + count == tokens.size();
      decoder_.decode(rows, tokens.subspan(first, count), last ? logits_of(sequence) : MutableView{});
      first += count;
    }
    window.computed();
  }

  void extend(const std::vector<std::size_t>& sequences) {
    if (sequences.empty()) return;
    std::vector<DecodeRow> rows;
    std::vector<std::int32_t> tokens;
    for (const std::size_t i : sequences) {
      rows.push_back({static_cast<Index>(i), texts_[i]->window().position()});
      tokens.push_back(texts_[i]->window().pending().front());
      texts_[i]->window().computed();
    }
    const auto size = static_cast<std::size_t>(decoder_.vocabulary());
    together_.resize(rows.size() * size);
    decoder_.decode(rows, tokens, together_);
    for (std::size_t row = 0; row < rows.size(); ++row) {
      std::ranges::copy(View(together_).subspan(row * size, size), logits_of(sequences[row]).begin());
    }
  }

  nn::Decoder& decoder_;
  const data::Tokenizer& tokenizer_;
  std::vector<std::unique_ptr<Text>> texts_;  ///< [sequences]; null: free
  Buffer logits_;                             ///< [sequences][V] of each text's last position
  std::vector<float> together_;
};

}  // namespace

void generate_texts(nn::Decoder& decoder, const data::Tokenizer& tokenizer,
                    const std::vector<std::vector<std::int32_t>>& prompts, const TextRule& rule,
                    const TextReaders& readers) {
  Texts texts(decoder, tokenizer);
  Sampler sampler(rule.sampling, rule.seed);
  std::size_t next = 0;
  do {
    while (next < prompts.size() && texts.begin(next, prompts[next], rule)) ++next;
  } while (texts.step(sampler, readers));
}

}  // namespace unisono::apply
