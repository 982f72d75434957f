#include <memory>

#include "command.hpp"
#include "unisono/apply/evaluate.hpp"
#include "unisono/apply/generate.hpp"
#include "unisono/apply/vectors.hpp"

namespace unisono::cli {
namespace {

struct ApplyArguments {
  apply::ApplyOptions options;
  apply::EvaluateOptions evaluate;
  apply::PredictOptions predict;
  apply::WordTestOptions words;
  apply::TopOptions top;
  bool stream = false;  ///< predict: lines of standard input
};

std::shared_ptr<ApplyArguments> add_apply_arguments(Command command, const Chosen& chosen) {
  const auto arguments = std::make_shared<ApplyArguments>();
  arguments->options.models = chosen.models;
  command.add_option("model", arguments->options.model, "run folder (its newest checkpoint is used) or checkpoint file")
      .required()
      .type_name("RUN|CHECKPOINT");
  command
      .add_option("--data", arguments->options.data, "HDF5 data set (default: the one that the model was trained on)")
      .type_name("FILE");
  command
      .add_option(
          "--input", arguments->options.input,
          "a raw file, read with the trained preprocessing: CSV, LIBSVM, IDX images, NumPy's .npy or a folder of "
          "them, a text, HDF5")
      .excludes(command.option("--data"))
      .type_name("FILE");
  command
      .add_option("--split", arguments->options.split,
                  "group of the data set: train, validation or test (default: test, if there is one)")
      .one_of({"train", "validation", "test"});
  command
      .add_option("--threshold", arguments->options.threshold,
                  "of two classes: predict the second one where its probability (or margin) is at least this (default: "
                  "what train.threshold_by chose, else the more probable class)")
      .type_name("T");
  command
      .add_option("--threads", arguments->options.threads, "threads per rank (default: the rank's share of the cores)")
      .between(1, 4096);
  command
      .add_choice("--device", arguments->options.device, settings::kDevices,
                  "device to compute on: cpu, cuda or auto (default: cpu, even if the model was trained on a GPU)")
      .default_str("");
  return arguments;
}

/// Tests of word vectors, which need no set.
void add_word_tests(Command command, apply::WordTestOptions& words) {
  Option analogies = command
                         .add_option("--analogies", words.analogies,
                                     "word vectors: evaluate on these analogy files (format of word2vec's "
                                     "questions-words.txt), instead of a data set")
                         .type_name("FILE");
  command.add_option("--words", words.words, "use only this many of the most frequent words for analogies")
      .capture_default_str()
      .positive()
      .needs(analogies);
  Option similarity = command
                          .add_option("--similarity", words.similarity,
                                      "word vectors: evaluate on these similarity files, with lines 'word word score'")
                          .type_name("FILE");
  for (Option tests : {analogies, similarity}) {
    for (const char* of_a_set : {"--data", "--input", "--split"}) tests.excludes(command.option(of_a_set));
  }
}

/// Recommends items to users, instead of predicting a split.
Option add_top(Command command, apply::TopOptions& options) {
  Option top =
      command
          .add_option("--top", options.top,
                      "factorization: write the N best items for each user, without the items that the user has rated")
          .positive()
          .excludes(command.option("--split"))
          .type_name("N");
  command.add_option("--users", options.users, "only for these users, separated by commas")
      .separated_by(',')
      .one_at_a_time()
      .needs(top)
      .type_name("NAMES");
  command.add_option("--users-file", options.users_file, "only for the users in this file, one per line")
      .needs(top)
      .type_name("FILE");
  return top;
}

}  // namespace

void add_evaluate(Command app, Chosen& chosen) {
  Command command = app.add_subcommand("evaluate", "evaluate a trained model on a data set, on any number of ranks");
  const auto arguments = add_apply_arguments(command, chosen);
  command.add_flag("--json", arguments->evaluate.json, "print the result as one JSON object");
  command.add_option("--at", arguments->evaluate.at, "for ratings: judge each user's best K items; 0: do not")
      .capture_default_str()
      .not_negative()
      .type_name("K");
  command
      .add_option("--stride", arguments->options.stride,
                  "for language models: windows of the text begin so many tokens apart, so that most tokens are "
                  "predicted from more of the text before them (default: as long as a window)")
      .positive()
      .type_name("N");
  command
      .add_option("--relevant", arguments->evaluate.relevant,
                  "for ratings: the lowest rating that makes an item relevant (default: the mean training rating)")
      .type_name("RATING");
  add_word_tests(command, arguments->words);
  command.callback([arguments, &chosen] {
    chosen.together = [arguments](comm::MpiSession& session, Log& log) {
      const auto world = session.world({}, warn_to(log));
      apply::WordTestOptions& words = arguments->words;
      words.model = arguments->options;
      if (words.analogies.empty() && words.similarity.empty()) {
        apply::evaluate(*world, arguments->options, arguments->evaluate, log);
      } else {
        apply::evaluate_words(*world, words, arguments->evaluate.json, log);
      }
      world->barrier();  // detects ranks that do not reach the end
      return ExitCode::success;
    };
  });
}

void add_predict(Command app, Chosen& chosen) {
  Command command =
      app.add_subcommand("predict", "write the predictions of a trained model to a file, on any number of ranks");
  const auto arguments = add_apply_arguments(command, chosen);
  apply::PredictOptions& predicted = arguments->predict;
  Option output =
      command.add_option("--output", predicted.output, "file to write: FILE.h5 or FILE.csv").type_name("FILE");
  command.add_flag("--overwrite", predicted.overwrite, "replace earlier predictions");
  Option top = add_top(command, arguments->top);
  command
      .add_option("--layer", predicted.layer,
                  "for networks: write this layer's outputs in place of the model's; 'unisono info' lists the layers")
      .excludes(top)
      .type_name("NAME");
  command
      .add_option("--batch-size", predicted.batch_size,
                  "examples that a rank predicts at once (default: train.evaluation_batch_size of the model's config)")
      .between(1, 1 << 20)
      .excludes(top);
  command
      .add_option("--ensemble", predicted.ensemble,
                  "runs or checkpoints of further models: the mean of all outputs is written, such as that of the best "
                  "trials of a search; may be repeated")
      .excludes(top)
      .repeated()
      .type_name("RUN|CHECKPOINT");
  command
      .add_option(
          "--keep", predicted.keep,
          "a column of the CSV file given by --input that is copied to FILE.csv, such as an id; may be repeated")
      .excludes(top)
      .repeated()
      .type_name("COLUMN");
  Option stream =
      command
          .add_flag("--stream", arguments->stream,
                    "predict the lines of standard input as they come, and print a line of CSV for each: rows of a CSV "
                    "file below the names of its columns, rows of LIBSVM, paths of pictures, or an example's values")
          .excludes(output)
          .excludes(top);
  for (const char* of_a_file : {"--data", "--input", "--split", "--overwrite", "--ensemble", "--keep"}) {
    stream.excludes(command.option(of_a_file));
  }
  command.callback([arguments, output, top, &chosen] {
    if (!output.is_given() && !arguments->stream) {
      throw ConfigError("--output is missing: predict writes FILE.h5 or FILE.csv, or prints with --stream");
    }
    chosen.together = [arguments, top](comm::MpiSession& session, Log& log) {
      const auto world = session.world({}, warn_to(log));
      if (arguments->stream) {
        const apply::PredictOptions& how = arguments->predict;
        apply::predict_stream(*world, {.model = arguments->options, .layer = how.layer, .batch_size = how.batch_size},
                              log);
        return ExitCode::success;
      }
      if (!top.is_given()) {
        apply::predict(*world, arguments->options, arguments->predict, log);
        return ExitCode::success;
      }
      arguments->top.model = arguments->options;
      arguments->top.output = arguments->predict.output;
      arguments->top.overwrite = arguments->predict.overwrite;
      apply::predict_top(*world, arguments->top, log);
      return ExitCode::success;
    };
  });
}

namespace {

/// How the next token is drawn.
void add_sampling(Command command, apply::GenerateOptions& options) {
  command
      .add_option("--temperature", options.temperature,
                  "what the scores of tokens are divided by: below 1 likely tokens become likelier; 0: always the most "
                  "likely one")
      .capture_default_str()
      .type_name("T");
  command.add_option("--top-k", options.top_k, "draw from the K most likely tokens only (default: from all)")
      .positive()
      .type_name("K");
  command
      .add_option("--top-p", options.top_p,
                  "draw only from the most likely tokens that have this probability together (nucleus sampling)")
      .capture_default_str()
      .type_name("P");
  command
      .add_option("--repetition-penalty", options.repetition_penalty,
                  "what makes tokens less likely that the text has already: their scores are divided by R where "
                  "positive, else multiplied by it")
      .capture_default_str()
      .type_name("R");
  command.add_option("--seed", options.seed, "seed of random choices").no_sign().capture_default_str();
}

}  // namespace

void add_generate(Command app, Chosen& chosen) {
  Command command = app.add_subcommand("generate", "sample texts from a trained language model");
  const auto options = std::make_shared<apply::GenerateOptions>();
  options->model.models = chosen.models;
  command.add_option("model", options->model.model, "run folder (its newest checkpoint is used) or checkpoint file")
      .required()
      .type_name("RUN|CHECKPOINT");
  command.add_option("--prompt", options->prompts, "the beginning of a text; may be repeated")
      .repeated()
      .type_name("TEXT");
  command.add_option("--prompts", options->prompts_file, "a file of prompts, one per line; -: standard input")
      .type_name("FILE");
  command.add_option("--tokens", options->tokens, "how many tokens to add, at most").capture_default_str().positive();
  add_sampling(command, *options);
  command.add_option("--stop", options->stops, "end a text before this one comes; may be repeated")
      .repeated()
      .type_name("TEXT");
  command.add_flag("--json", options->json, "print one JSON object for each text, on a line of its own");
  command.add_option("--threads", options->model.threads, "threads (default: one for each core)").between(1, 4096);
  command.callback([options, &chosen] {
    chosen.alone = [options] {
      Log log;
      apply::generate(*options, log);
    };
  });
}

namespace {

/// RUN|CHECKPOINT and --table.
template <typename Options>
std::shared_ptr<Options> add_vector_arguments(Command command, const Chosen& chosen) {
  const auto options = std::make_shared<Options>();
  options->model.models = chosen.models;
  options->model.threads = 1;
  command.add_option("model", options->model.model, "run folder (its newest checkpoint is used) or checkpoint file")
      .required()
      .type_name("RUN|CHECKPOINT");
  command
      .add_option("--table", options->table, "which vectors, if the model has several tables: words, users, items, …")
      .type_name("NAME");
  return options;
}

}  // namespace

void add_export(Command app, Chosen& chosen) {
  Command command = app.add_subcommand(
      "export", "write a trained model for other programs: its parameters, its vectors, or all of it");
  const auto options = add_vector_arguments<apply::ExportOptions>(command, chosen);
  command.add_option("--output", options->output, "file to write").required().type_name("FILE");
  command
      .add_option("--format", options->format,
                  "vectors: word2vec-text, word2vec-binary, npy (with FILE.names.txt) or csv; all parameters by layer: "
                  "hdf5, npz or safetensors; the model as a graph: onnx (known of --output FILE.safetensors, FILE.npz, "
                  "FILE.onnx)")
      .one_of({"word2vec-text", "word2vec-binary", "npy", "csv", "hdf5", "npz", "safetensors", "onnx"})
      .type_name("FORMAT");
  command
      .add_option(
          "--names", options->names,
          "for safetensors: names and shapes of the parameters, transformers (of language models that are built "
          "like GPT-2 or Llama), pytorch (of networks; FILE.py then builds the network there) or unisono (default: the "
          "first that has names for the model)")
      .one_of({"transformers", "pytorch", "unisono"})
      .type_name("NAMES");
  command.add_flag("--without-preprocessing", options->without_preprocessing,
                   "for onnx: the graph begins with what the model gets, encoded and normalised");
  command.add_flag("--overwrite", options->overwrite, "replace the file if it exists");
  command.callback([options, &chosen] {
    chosen.alone = [options] {
      Log log;
      apply::export_vectors(*options, log);
    };
  });
}

void add_neighbors(Command app, Chosen& chosen) {
  Command command = app.add_subcommand("neighbors", "list the words, users or items with the most similar vectors");
  const auto options = add_vector_arguments<apply::NeighborOptions>(command, chosen);
  command.add_option("names", options->names, "names of words, users or items; each gets a list of its neighbours")
      .required()
      .type_name("NAME");
  command.add_option("--top", options->top, "number of neighbours").capture_default_str().positive();
  command.add_flag("--json", options->json, "print the result as one JSON object");
  command.callback([options, &chosen] {
    chosen.alone = [options] {
      Log log;
      apply::neighbors(*options, log);
    };
  });
}

}  // namespace unisono::cli
