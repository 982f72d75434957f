#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "generate/made_text.hpp"
#include "generate/sampler.hpp"
#include "generate/window.hpp"
#include "unisono/base/config.hpp"
#include "unisono/nn/decoder.hpp"

namespace unisono::apply {

/// Why a text ended.
enum class TextEnd { length, stop, end_of_text };

inline constexpr Named<TextEnd> kTextEnds[] = {{TextEnd::length, "length", "it has as many tokens as were wanted"},
                                               {TextEnd::stop, "stop", "one of the stops came"},
                                               {TextEnd::end_of_text, "end_of_text", "the model ended it"}};

/// A text that follows a prompt.
struct GeneratedText {
  std::size_t prompt = 0;  ///< the prompt's number, from 0
  std::string text;        ///< without the prompt and the stop
  std::vector<std::int32_t> tokens;
  std::vector<double> log_probabilities;  ///< of the tokens, as the model gives them
  TextEnd ended_by = TextEnd::length;
};

/// What texts are made with.
struct TextRule {
  SamplingRule sampling;
  std::uint64_t seed = 1;
  std::int64_t tokens = 200;
  std::vector<std::string> stops = {};
};

/// Who is told what was made.
struct TextReaders {
  /// A piece of the text of a prompt: whole characters.
  std::function<void(std::size_t prompt, const std::string& piece)> piece;
  std::function<void(const GeneratedText& made)> text;  ///< a text is complete
};

/// Makes the texts that follow some prompts: as many of them at the same time as the decoder has sequences. A text does
/// not depend on the others.
/// \param prompts tokens of each, at least one \param tokenizer of the model
/// \throws CheckpointError as Sampler::draw
void generate_texts(nn::Decoder& decoder, const data::Tokenizer& tokenizer,
                    const std::vector<std::vector<std::int32_t>>& prompts, const TextRule& rule,
                    const TextReaders& readers);

}  // namespace unisono::apply
