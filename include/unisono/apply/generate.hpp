#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/apply/evaluate.hpp"
#include "unisono/base/log.hpp"

namespace unisono::apply {

/// The arguments of `unisono generate`.
struct GenerateOptions {
  ApplyOptions model;                     ///< the model; only `model`, `threads` and `models` are used
  std::vector<std::string> prompts = {};  ///< beginnings of texts
  std::string prompts_file = {};          ///< a file of further prompts, one a line; "-": standard input; empty: none
  std::int64_t tokens = 200;              ///< of each text, at most; above 0
  double temperature = 1;                 ///< what logits are divided by; 0: the most likely token is taken
  std::int64_t top_k = 0;                 ///< only the k most likely tokens are drawn from; 0: all
  double top_p = 1;                       ///< only the most likely tokens of this probability together, in (0, 1]
  double repetition_penalty = 1;          ///< of tokens that the text has already; above 0
  std::uint64_t seed = 1;
  std::vector<std::string> stops = {};  ///< a text ends before the first of these
  bool json = false;                    ///< print one JSON object for each text
};

/// Samples texts from a trained language model, by one process, and prints them: each prompt with what follows it. What
/// is drawn depends on the seed, the prompt's number and the token's number alone.
/// \throws CheckpointError, ConfigError for a model of anything else, or without a tokenizer, and for options out of
/// range, DataError for a prompt that cannot be divided into tokens, OutputError
void generate(const GenerateOptions& options, Log& log);

}  // namespace unisono::apply
