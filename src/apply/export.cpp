#include <fmt/format.h>

#include <filesystem>
#include <functional>

#include "exchange/onnx.hpp"
#include "exchange/torch_module.hpp"
#include "unisono/apply/trained_model.hpp"
#include "unisono/apply/vectors.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/hdf5.hpp"
#include "unisono/data/safetensors.hpp"
#include "unisono/session/tensor_names.hpp"
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

/// What a model consists of beside its parameters and running statistics: the features' mean and scale, a threshold.
void visit_others(TrainedModel& model, const Take& take) {
  const data::Normalization& normalization = model.checkpoint.header.preprocessing.normalization;
  for (const auto& [name, values] :
       {std::pair("mean", &normalization.mean), std::pair("scale", &normalization.scale)}) {
    if (values->empty()) continue;
    take("normalization", std::string("normalization.") + name, {static_cast<Index>(values->size())}, *values);
  }
  if (model.threshold) {
    const std::vector<float> threshold = {static_cast<float>(*model.threshold)};
    take("decision", "decision.threshold", {1}, threshold);
  }
}

std::size_t visit_arrays(TrainedModel& model, const Take& take) {
  std::size_t count = 0;
  const Take counting = [&](const auto&... array) {
    take(array...);
    ++count;
  };
  visit_blocks("parameters", model.parts->model->layout(), model.parts->parameters.view(), counting);
  visit_blocks("statistics", model.parts->model->statistics_layout(), model.parts->statistics.view(), counting);
  visit_others(model, counting);
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

/// The names that a safetensors file gets.
session::TensorNames chosen_names(const models::Model& model, const ExportOptions& options) {
  if (options.names == "unisono") return session::own_names(model);
  const bool wants_any = options.names.empty();
  if (wants_any || options.names == "transformers") {
    if (auto names = session::transformers_names(model)) return *names;
  }
  if (wants_any || options.names == "pytorch") {
    if (auto names = session::pytorch_names(model)) return *names;
  }
  if (wants_any) return session::own_names(model);
  if (options.names == "pytorch") {
    throw ConfigError("--names pytorch: the model is no network, and has no modules in PyTorch; leave --names out");
  }
  throw ConfigError(
      "--names transformers: the model is built like neither GPT-2 nor Llama (docs/fine-tuning.md lists their layers), "
      "so that transformers has no names for its parameters; leave --names out");
}

/// The numbers of a tensor. \param canonical of the whole block
std::vector<float> numbers_of(const Block& block, const session::TensorRows& tensor, View canonical) {
  const auto columns = static_cast<std::size_t>(block.row_size()), rows = static_cast<std::size_t>(tensor.rows);
  const View own = canonical.subspan(static_cast<std::size_t>(tensor.first) * columns, rows * columns);
  std::vector<float> numbers(own.begin(), own.end());
  for (std::size_t i = 0; tensor.transposed && i < rows; ++i) {
    for (std::size_t j = 0; j < columns; ++j) numbers[j * rows + i] = own[i * columns + j];
  }
  return numbers;
}

/// A vector, and what its blocks are called in a file.
struct NamedVector {
  std::string group;
  const ParameterLayout& layout;
  const session::TensorNames& names;
  View values;
};

/// Calls take for each tensor of a vector, in the order of its blocks.
void visit_tensors(const NamedVector& vector, const Take& take) {
  std::size_t number = 0;
  visit_blocks(vector.group, vector.layout, vector.values,
               [&](const std::string& group, const std::string&, const std::vector<Index>&, View canonical) {
                 const Block& block = vector.layout.blocks()[number];
                 for (const session::TensorRows& tensor : vector.names.blocks[number]) {
                   take(group, tensor.tensor, tensor.shape, numbers_of(block, tensor, canonical));
                 }
                 ++number;
               });
}

/// The shapes come first in the file, so that everything is visited twice.
std::size_t write_safetensors(TrainedModel& model, const ExportOptions& options, const session::TensorNames& names) {
  const models::Model& of = *model.parts->model;
  const session::TensorNames statistics = names.kind == session::NameKind::pytorch
                                              ? session::pytorch_statistics(of.statistics_layout())
                                              : session::own_names(of.statistics_layout());
  const auto visit = [&](const Take& take) {
    visit_tensors({"parameters", of.layout(), names, model.parts->parameters.view()}, take);
    visit_tensors({"statistics", of.statistics_layout(), statistics, model.parts->statistics.view()}, take);
    visit_others(model, take);
  };
  std::vector<data::NamedShape> shapes;
  visit([&](const std::string&, const std::string& name, const std::vector<Index>& shape, View) {
    shapes.push_back({name, shape});
  });
  NewFile file(options.output, replaced(options));
  file.write(data::safetensors_header(shapes));
  visit([&](const std::string&, const std::string&, const std::vector<Index>&, View values) {
    const auto bytes = std::as_bytes(values);
    file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  });
  file.finish();
  return shapes.size();
}

/// The tensors, and the Python file beside them that builds the network. \return what was written, for the log
std::string write_torch_module(TrainedModel& model, const ExportOptions& options, const session::TensorNames& names) {
  const std::string path = std::filesystem::path(options.output).replace_extension(".py").string();
  for (const char* package : {"torch", "safetensors"}) {
    if (std::filesystem::path(path).stem() != package) continue;
    throw ConfigError(fmt::format(
        "--output {}: the file that builds the network would be {}, which would hide the package of this name from "
        "programs in its folder; choose another name",
        options.output, path));
  }
  if (path == options.output) {
    throw ConfigError(fmt::format("--output {}: the file that builds the network gets this name; call the weights {}",
                                  path, std::filesystem::path(path).replace_extension(".safetensors").string()));
  }
  NewFile module(path, replaced(options));
  module.write(torch_module_of(model, options.output));
  const std::size_t count = write_safetensors(model, options, names);
  module.finish();
  return fmt::format("{} tensors, with the names of PyTorch (the network is in {}),", count, path);
}

/// Writes a model as an ONNX graph. \return what was written, for the log \throws ConfigError, OutputError
std::string export_onnx(TrainedModel& model, const ExportOptions& options) {
  const OnnxGraph graph = onnx_of(model, !options.without_preprocessing);
  NewFile file(options.output, replaced(options));
  if (!graph.needs_external()) {
    graph.write(file, nullptr);
    file.finish();
    return "the graph";
  }
  NewFile tensors(options.output + ".data", replaced(options));
  graph.write(file, &tensors);
  tensors.finish();
  file.finish();
  return fmt::format("the graph, with its tensors in {}.data,", options.output);
}

/// Writes the model as a graph; or every block of θ and of the running statistics under its name, and the features'
/// mean and scale if the run normalised them. \return what was written, for the log \throws ConfigError, OutputError
std::string export_model(TrainedModel& model, const ExportOptions& options) {
  if (!options.table.empty()) {
    throw ConfigError(
        "--table: --format hdf5, npz, safetensors and onnx write the whole model; leave --table out, or choose another "
        "format");
  }
  if (options.format == "onnx") return export_onnx(model, options);
  if (options.format == "npz") return fmt::format("{} arrays", write_npz(model, options));
  if (options.format == "hdf5") return fmt::format("{} arrays", write_hdf5(model, options));
  const session::TensorNames names = chosen_names(*model.parts->model, options);
  if (names.kind == session::NameKind::pytorch) return write_torch_module(model, options, names);
  const std::size_t count = write_safetensors(model, options, names);
  return names.kind == session::NameKind::unisono
             ? fmt::format("{} tensors", count)
             : fmt::format("{} tensors, with the names of {} in transformers,", count, session::name_of(names.kind));
}

/// The options with the format that is meant. \throws ConfigError
ExportOptions settled(ExportOptions options) {
  for (const char* format : {"safetensors", "npz", "onnx"}) {
    if (options.format.empty() && options.output.ends_with(fmt::format(".{}", format))) options.format = format;
  }
  if (options.format.empty()) {
    throw ConfigError(
        "--format is missing; name one, such as hdf5 for all parameters (it is known of --output FILE.safetensors, "
        "FILE.npz and FILE.onnx)");
  }
  if (options.without_preprocessing && options.format != "onnx") {
    throw ConfigError("--without-preprocessing: only --format onnx has the preprocessing; leave it out");
  }
  if (!options.names.empty() && options.format != "safetensors") {
    throw ConfigError("--names: only --format safetensors has names of other programs; leave --names out");
  }
  return options;
}

bool writes_model(const std::string& format) {
  return format == "hdf5" || format == "npz" || format == "safetensors" || format == "onnx";
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

void export_vectors(const ExportOptions& given, Log& log) {
  const ExportOptions options = settled(given);
  const auto alone = comm::make_self_communicator();
  TrainedModel model(*alone, options.model, log, TrainedModel::With::nothing);
  if (writes_model(options.format)) {
    const std::string written = export_model(model, options);
    log.info(fmt::format("{}: {} of {}", options.output, written, model.checkpoint.path));
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
