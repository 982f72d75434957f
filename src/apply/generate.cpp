#include "unisono/apply/generate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "generate/texts.hpp"
#include "unisono/apply/trained_model.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/models/staged.hpp"
#include "unisono/records/json_line.hpp"

namespace unisono::apply {
namespace {

constexpr Index kMostTogether = 32;                ///< texts that are made at the same time
constexpr Index kMostCacheBytes = Index{1} << 30;  ///< bytes of their keys and values, if these are several texts

void require_options(const GenerateOptions& options) {
  const auto refuse = [](bool wrong, const std::string& what) {
    if (wrong) throw ConfigError(what);
  };
  refuse(
      !(options.temperature >= 0) || std::isinf(options.temperature),
      fmt::format("--temperature {}: must be a number from 0 on; 0 takes the most likely token, 1 draws as the model "
                  "says",
                  options.temperature));
  refuse(!(options.top_p > 0 && options.top_p <= 1),
         fmt::format("--top-p {}: must be above 0 and at most 1", options.top_p));
  refuse(!(options.repetition_penalty > 0) || std::isinf(options.repetition_penalty),
         fmt::format("--repetition-penalty {}: must be above 0; 1 is no penalty", options.repetition_penalty));
  for (const std::string& stop : options.stops) {
    refuse(stop.empty(), "--stop: is empty; give the text before which to stop, or leave it out");
  }
}

/// A prompt and where it is from, for messages.
struct Prompt {
  std::string text, where;
};

void add_lines(std::istream& from, const std::string& path, std::vector<Prompt>& prompts) {
  std::string line;
  for (int number = 1; std::getline(from, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
    prompts.push_back({line, fmt::format("{}:{}", path, number)});
  }
}

void add_file(const std::string& path, std::vector<Prompt>& prompts) {
  if (path == "-") return add_lines(std::cin, "standard input", prompts);
  std::error_code ignored;
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path, ignored)) {
    throw DataError(fmt::format("{}: cannot be read; --prompts takes a text file with a prompt on each line", path));
  }
  add_lines(file, path, prompts);
}

std::vector<Prompt> prompts_of(const GenerateOptions& options) {
  std::vector<Prompt> prompts;
  for (const std::string& text : options.prompts) prompts.push_back({text, "--prompt"});
  if (!options.prompts_file.empty()) add_file(options.prompts_file, prompts);
  if (prompts.empty()) {
    throw ConfigError(
        "there is no prompt; give the beginning of a text with --prompt TEXT, or a file of them with "
        "--prompts FILE");
  }
  for (const Prompt& prompt : prompts) {
    if (!prompt.text.empty()) continue;
    throw ConfigError(prompt.where + ": the prompt is empty; give the beginning of a text, one character or more");
  }
  return prompts;
}

/// A trained language model with its tokenizer.
struct LanguageModel {
  LanguageModel(const GenerateOptions& options, Log& log)
      : alone(comm::make_self_communicator()),
        model(*alone, options.model, log, TrainedModel::With::nothing),
        network(network_of(model)),
        tokenizer(tokenizer_of(model)) {}

  static const nn::Network& network_of(const TrainedModel& model);
  static std::unique_ptr<data::Tokenizer> tokenizer_of(const TrainedModel& model);
  nn::Decoder decoder(std::size_t texts) const;

  std::unique_ptr<comm::Communicator> alone;
  TrainedModel model;
  const nn::Network& network;
  std::unique_ptr<data::Tokenizer> tokenizer;
};

const nn::Network& LanguageModel::network_of(const TrainedModel& model) {
  const data::SetKind kind = model.checkpoint.header.inputs.kind;
  const models::Staged* const staged = model.parts->model->staged();
  if (kind == data::SetKind::tokens && staged != nullptr) return staged->network();
  throw ConfigError(fmt::format("{}: is a model of {}, not a language model; 'unisono predict' gives its predictions",
                                model.checkpoint.path, data::name_of(kind)));
}

std::unique_ptr<data::Tokenizer> LanguageModel::tokenizer_of(const TrainedModel& model) {
  const std::string& path = model.checkpoint.path;
  auto tokenizer = model.checkpoint.header.preprocessing.tokenizer
                       ? data::make_tokenizer(*model.checkpoint.header.preprocessing.tokenizer, path)
                       : nullptr;
  if (tokenizer == nullptr) {
    throw ConfigError(
        fmt::format("{}: holds no tokenizer, because the set of its training has none, so that prompts cannot be "
                    "divided into tokens; train on a set made by 'unisono data import tokens'",
                    path));
  }
  if (tokenizer->vocabulary() != model.checkpoint.header.inputs.rows) {
    throw CheckpointError(fmt::format("{}: its tokenizer has {} tokens, but the model {}", path,
                                      tokenizer->vocabulary(), model.checkpoint.header.inputs.rows));
  }
  return tokenizer;
}

nn::Decoder LanguageModel::decoder(std::size_t texts) const {
  const Index fitting = kMostCacheBytes / std::max<Index>(1, nn::Decoder::bytes_of_sequence(network));
  const Index sequences = std::min({static_cast<Index>(texts), kMostTogether, std::max<Index>(1, fitting)});
  return {network, *model.parts->backend, model.parts->parameters.view(), sequences};
}

std::vector<std::vector<std::int32_t>> encode(const std::vector<Prompt>& prompts, const data::Tokenizer& tokenizer,
                                              Index context, Log& log) {
  std::vector<std::vector<std::int32_t>> all;
  for (const Prompt& prompt : prompts) {
    try {
      all.push_back(tokenizer.encode(prompt.text));
    } catch (const DataError& error) {
      throw DataError(fmt::format("{}: {}", prompt.where, error.what()));
    }
    const std::vector<std::int32_t>& tokens = all.back();
    if (tokens.empty()) throw DataError(prompt.where + ": the prompt has no tokens; give a longer one");
    if (std::ssize(tokens) <= context) continue;
    log.warning(fmt::format("{}: the prompt has {} tokens, of which the model reads the last {}", prompt.where,
                            grouped(std::ssize(tokens)), grouped(context)));
  }
  return all;
}

void print(std::string_view text) {
  fmt::print("{}", printable(text));
  std::fflush(stdout);
}

void print_json(const Prompt& prompt, const GeneratedText& made) {
  const nlohmann::ordered_json object = {{"prompt", prompt.text},
                                         {"text", made.text},
                                         {"tokens", made.tokens},
                                         {"log_probabilities", made.log_probabilities},
                                         {"ended_by", name_of(made.ended_by, kTextEnds)}};
  fmt::print("{}\n", records::json_line(object));
  std::fflush(stdout);
}

/// Prints whole texts in the order of their prompts.
class InOrder {
 public:
  InOrder(const std::vector<Prompt>& prompts, bool json) : prompts_(prompts), json_(json) {}

  void add(const GeneratedText& made) {
    waiting_.emplace(made.prompt, made);
    for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_; first = waiting_.begin()) {
      print_text(first->second);
      waiting_.erase(first);
      ++next_;
    }
  }

 private:
  void print_text(const GeneratedText& made) const {
    const Prompt& prompt = prompts_[made.prompt];
    if (json_) return print_json(prompt, made);
    print(fmt::format("{}--- {} of {} ---\n{}{}\n", made.prompt == 0 ? "" : "\n", made.prompt + 1, prompts_.size(),
                      prompt.text, made.text));
  }

  const std::vector<Prompt>& prompts_;
  bool json_;
  std::map<std::size_t, GeneratedText> waiting_;
  std::size_t next_ = 0;
};

TextReaders streaming() {
  return {.piece = [](std::size_t, const std::string& piece) { print(piece); },
          .text = [](const GeneratedText&) { print("\n"); }};
}

}  // namespace

void generate(const GenerateOptions& options, Log& log) {
  require_options(options);
  const std::vector<Prompt> prompts = prompts_of(options);
  const LanguageModel made_with(options, log);
  nn::Decoder decoder = made_with.decoder(prompts.size());
  const auto tokens = encode(prompts, *made_with.tokenizer, decoder.context(), log);
  InOrder in_order(prompts, options.json);
  TextReaders readers{.piece = [](std::size_t, const std::string&) {},
                      .text = [&](const GeneratedText& made) { in_order.add(made); }};
  if (prompts.size() == 1 && !options.json) {
    print(prompts.front().text);
    readers = streaming();
  }
  const SamplingRule sampling{.temperature = options.temperature,
                              .top_k = options.top_k,
                              .top_p = options.top_p,
                              .repetition_penalty = options.repetition_penalty};
  generate_texts(decoder, *made_with.tokenizer, tokens,
                 {.sampling = sampling, .seed = options.seed, .tokens = options.tokens, .stops = options.stops},
                 readers);
}

}  // namespace unisono::apply
