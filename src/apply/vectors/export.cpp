#include <fmt/format.h>

#include "unisono/apply/vectors.hpp"
#include "unisono/records/progress.hpp"
#include "vectors/formats.hpp"
#include "vectors/parameters.hpp"
#include "vectors/tables.hpp"

namespace unisono::apply {
namespace {

/// Both files are there, or neither.
void write_npy_and_names(const NamedRows& rows, const std::string& path, bool overwrite) {
  NewFile file(path, overwrite), names(path + ".names.txt", overwrite);
  write_names(rows.names, names);
  write_npy(rows, file);
  names.finish();
  file.finish();
}

void write_rows(const NamedRows& rows, const ExportOptions& options) {
  if (options.format == "npy") return write_npy_and_names(rows, options.output, options.overwrite);
  NewFile file(options.output, options.overwrite);
  if (options.format == "csv") {
    write_csv(rows, file);
  } else if (options.format == "word2vec-text") {
    write_word2vec_text(rows, file);
  } else {
    write_word2vec_binary(rows, file);
  }
  file.finish();
}

}  // namespace

void export_vectors(const ExportOptions& options, Log& log) {
  const auto alone = comm::make_self_communicator();
  TrainedModel model(*alone, options.model, log, TrainedModel::With::nothing);
  if (options.format == "hdf5" || options.format == "npz") {
    const std::size_t arrays = export_parameters(model, options);
    log.info(fmt::format("{}: {} arrays of {}", options.output, arrays, model.checkpoint.path));
    return;
  }
  const models::VectorTable table = choose_table(model, options.table);
  const data::NameTable names = names_of(model, table);
  const View parameters = model.parts->parameters.view();
  write_rows({.names = names.names,
              .width = table.width,
              .read = [&](Index row, MutableView vector) { read_row(table, parameters, row, vector); }},
             options);
  log.info(fmt::format("{}: {} {} of {}, {} number{} each{}", options.output, grouped(table.rows), table.name,
                       model.checkpoint.path, table.width, table.width == 1 ? "" : "s",
                       options.format == "npy" ? fmt::format("; names in {}.names.txt", options.output) : ""));
}

}  // namespace unisono::apply
