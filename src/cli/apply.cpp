#include <memory>

#include "checks.hpp"
#include "commands.hpp"
#include "unisono/experiment/evaluate.hpp"
#include "warn.hpp"

namespace unisono::cli {
namespace {

struct Arguments {
  ApplyOptions options;
  EvaluateOptions evaluate;
  PredictOptions predict;
  WordTestOptions words;
  TopOptions top;
};

std::shared_ptr<Arguments> add_apply_arguments(CLI::App& command, const Chosen& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  arguments->options.models = chosen.models;
  command.add_option("model", arguments->options.model, "a run folder (its newest checkpoint), or a checkpoint file")
      ->required()
      ->type_name("RUN|CHECKPOINT");
  command.add_option("--data", arguments->options.data, "an HDF5 set (default: the one it was trained on)")
      ->type_name("FILE");
  command.add_option("--split", arguments->options.split, "train, validation or test (default: test, if there is one)")
      ->check(CLI::IsMember({"train", "validation", "test"}));
  command.add_option("--threads", arguments->options.threads, "per rank (default: the rank's share of the cores)")
      ->check(CLI::Range(1, 4096));
  command
      .add_option("--device", arguments->options.device, "cpu, cuda or auto (default: cpu, whatever it was trained on)")
      ->check(CLI::IsMember({"cpu", "cuda", "auto"}));
  return arguments;
}

/// Tests of word vectors, which need no set.
void add_word_tests(CLI::App& command, WordTestOptions& words) {
  CLI::Option& analogies =
      *command
           .add_option("--analogies", words.analogies, "of words: files like questions-words.txt, in place of a set")
           ->type_name("FILE");
  command.add_option("--words", words.words, "how many of the most frequent ones analogies are asked of")
      ->capture_default_str()
      ->check(kPositive)
      ->needs(&analogies);
  CLI::Option& similarity =
      *command.add_option("--similarity", words.similarity, "of words: files of lines 'word word score'")
           ->type_name("FILE");
  for (CLI::Option* tests : {&analogies, &similarity}) {
    for (const char* of_a_set : {"--data", "--split"}) tests->excludes(command.get_option(of_a_set));
  }
}

/// The best items of users, in place of a split's predictions.
CLI::Option& add_top(CLI::App& command, TopOptions& options) {
  CLI::Option& top = *command.add_option("--top", options.top, "of ratings: the best items of each user, so many")
                          ->check(kPositive)
                          ->excludes(command.get_option("--split"))
                          ->type_name("N");
  command.add_option("--users", options.users, "only of these, with commas between")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(&top)
      ->type_name("NAMES");
  command.add_option("--users-file", options.users_file, "only of these, one in each line")
      ->needs(&top)
      ->type_name("FILE");
  return top;
}

}  // namespace

void add_evaluate(CLI::App& app, Chosen& chosen) {
  CLI::App& command = *app.add_subcommand("evaluate", "a trained model's figures on a set, on any number of ranks");
  const auto arguments = add_apply_arguments(command, chosen);
  command.add_flag("--json", arguments->evaluate.json, "print one JSON object");
  command.add_option("--at", arguments->evaluate.at, "for ratings: judge each user's best K items; 0: do not")
      ->capture_default_str()
      ->check(kNotNegative)
      ->type_name("K");
  command
      .add_option("--relevant", arguments->evaluate.relevant,
                  "for ratings: the lowest rating that makes an item relevant (default: the mean training rating)")
      ->type_name("RATING");
  add_word_tests(command, arguments->words);
  command.callback([arguments, &chosen] {
    chosen.together = [arguments](MpiSession& session, Log& log) {
      const auto world = session.world({}, warn_to(log));
      WordTestOptions& words = arguments->words;
      words.model = arguments->options;
      if (words.analogies.empty() && words.similarity.empty()) {
        evaluate(*world, arguments->options, arguments->evaluate, log);
      } else {
        evaluate_words(*world, words, arguments->evaluate.json, log);
      }
      world->barrier();  // whoever does not come to the end is missed here
      return ExitCode::success;
    };
  });
}

void add_predict(CLI::App& app, Chosen& chosen) {
  CLI::App& command = *app.add_subcommand("predict", "write a trained model's outputs, on any number of ranks");
  const auto arguments = add_apply_arguments(command, chosen);
  PredictOptions& predicted = arguments->predict;
  command.add_option("--output", predicted.output, "FILE.h5 or FILE.csv")->required()->type_name("FILE");
  command.add_flag("--overwrite", predicted.overwrite, "replace earlier predictions");
  CLI::Option& top = add_top(command, arguments->top);
  command
      .add_option("--layer", predicted.layer,
                  "for networks: write this layer's outputs in place of the model's; 'unisono info' lists the layers")
      ->excludes(&top)
      ->type_name("NAME");
  command.callback([arguments, &top, &chosen] {
    chosen.together = [arguments, &top](MpiSession& session, Log& log) {
      const auto world = session.world({}, warn_to(log));
      if (top.count() == 0) {
        predict(*world, arguments->options, arguments->predict, log);
        return ExitCode::success;
      }
      arguments->top.model = arguments->options;
      arguments->top.output = arguments->predict.output;
      arguments->top.overwrite = arguments->predict.overwrite;
      predict_top(*world, arguments->top, log);
      return ExitCode::success;
    };
  });
}

}  // namespace unisono::cli
