#include "vectors/parameters.hpp"

#include <filesystem>
#include <functional>

#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"
#include "unisono/data/hdf5.hpp"
#include "vectors/npz.hpp"

namespace unisono::apply {
namespace {

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
  return count;
}

std::size_t write_npz(TrainedModel& model, const ExportOptions& options) {
  NewFile file(options.output, options.overwrite);
  NpzWriter npz(file);
  const std::size_t count =
      visit_arrays(model, [&](const std::string&, const std::string& name, const std::vector<Index>& shape,
                              View values) { npz.add(name, shape, values); });
  npz.finish();
  file.finish();
  return count;
}

std::size_t write_hdf5(TrainedModel& model, const ExportOptions& options) {
  { const NewFile may_be_made(options.output, options.overwrite); }
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

}  // namespace

std::size_t export_parameters(TrainedModel& model, const ExportOptions& options) {
  if (!options.table.empty()) {
    throw ConfigError(
        "--table: --format hdf5 and npz write all parameters; leave --table out, or choose another format");
  }
  return options.format == "npz" ? write_npz(model, options) : write_hdf5(model, options);
}

}  // namespace unisono::apply
