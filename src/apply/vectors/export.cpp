#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "unisono/apply/trained_model.hpp"
#include "unisono/apply/vectors.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/hdf5.hpp"
#include "vectors/formats.hpp"
#include "vectors/tables.hpp"

namespace unisono::apply {
namespace {

Replace replaced(const ExportOptions& options) { return options.overwrite ? Replace::exports : Replace::nothing; }

/// Takes an array. \param group where HDF5 has it: parameters, statistics, normalization
using Take = std::function<void(const std::string& group, const std::string& name, const std::vector<Index>& shape,
                                View values)>;

void visit_blocks(const std::string& group, const ParameterLayout& layout, View vector, const Take& take) {
  std::vector<float> canonical;
  for (const Block& block : layout.blocks()) {
    canonical.resize(static_cast<std::size_t>(block.size()));
    to_canonical(block, part(vector, block), canonical);
    take(group, block.name, block.shape, canonical);
  }
}

std::size_t visit_arrays(TrainedModel& model, const Take& take) {
  std::size_t count = 0;
  const Take counting = [&](const auto&... array) {
    take(array...);
    ++count;
  };
  const models::Model& made = *model.parts->model;
  visit_blocks("parameters", made.layout(), model.parts->parameters.view(), counting);
  visit_blocks("statistics", made.statistics_layout(), model.parts->statistics.view(), counting);
  const data::Normalization& normalization = model.checkpoint.header.preprocessing.normalization;
  for (const auto& [name, values] :
       {std::pair("mean", &normalization.mean), std::pair("scale", &normalization.scale)}) {
    if (values->empty()) continue;
    counting("normalization", std::string("normalization.") + name, {static_cast<Index>(values->size())}, *values);
  }
  if (model.threshold) {
    const std::vector<float> threshold = {static_cast<float>(*model.threshold)};
    counting("decision", "decision.threshold", {1}, threshold);
  }
  return count;
}

std::size_t write_npz(TrainedModel& model, const ExportOptions& options) {
  NewFile file(options.output, replaced(options));
  NpzWriter npz(file);
  const std::size_t count =
      visit_arrays(model, [&](const std::string&, const std::string& name, const std::vector<Index>& shape,
                              View values) { npz.add(name, shape, values); });
  npz.finish();
  file.finish();
  return count;
}

std::size_t write_hdf5(TrainedModel& model, const ExportOptions& options) {
  { const NewFile may_be_made(options.output, replaced(options)); }
  const std::string aside = options.output + ".tmp";
  std::size_t count = 0;
  try {
    data::hdf5::File file(aside, data::hdf5::File::Mode::create);
    count = visit_arrays(
        model, [&](const std::string& group, const std::string& name, const std::vector<Index>& shape, View values) {
          const std::string path = group + "/" + name;
          file.create<float>(path, {shape.begin(), shape.end()});
          file.write_rows<float>(path, 0, static_cast<std::uint64_t>(shape.front()), values.data());
        });
    file.write_attribute("", "step", model.checkpoint.header.step);
    file.flush();
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove(aside, ignored);
    throw;
  }
  sync_and_rename(aside, options.output);
  return count;
}

/// Writes every block of θ and of the running statistics under its name, in its canonical shape, and the features' mean
/// and scale if the run normalised them. \return how many arrays were written \throws OutputError
std::size_t export_parameters(TrainedModel& model, const ExportOptions& options) {
  if (!options.table.empty()) {
    throw ConfigError(
        "--table: --format hdf5 and npz write all parameters; leave --table out, or choose another format");
  }
  return options.format == "npz" ? write_npz(model, options) : write_hdf5(model, options);
}

/// Both files are there, or neither.
void write_npy_and_names(const NamedVectors& rows, const ExportOptions& options) {
  NewFile file(options.output, replaced(options)), names(options.output + ".names.txt", replaced(options));
  write_names(rows.names, names);
  write_npy(rows, file);
  names.finish();
  file.finish();
}

void write_rows(const NamedVectors& rows, const ExportOptions& options) {
  if (options.format == "npy") return write_npy_and_names(rows, options);
  NewFile file(options.output, replaced(options));
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
