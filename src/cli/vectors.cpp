#include "unisono/apply/vectors.hpp"

#include <memory>

#include "commands.hpp"

namespace unisono::cli {
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
  Command command =
      app.add_subcommand("export", "write a trained model's vectors of words, users or items, or all its parameters");
  const auto options = add_vector_arguments<apply::ExportOptions>(command, chosen);
  command.add_option("--output", options->output, "file to write").required().type_name("FILE");
  command
      .add_option("--format", options->format,
                  "vectors: word2vec-text, word2vec-binary, npy (with FILE.names.txt) or csv; all parameters by layer: "
                  "hdf5 or npz")
      .required()
      .one_of({"word2vec-text", "word2vec-binary", "npy", "csv", "hdf5", "npz"})
      .type_name("FORMAT");
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
