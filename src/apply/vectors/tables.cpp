#include "vectors/tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/session/run_dictionary.hpp"

namespace unisono::apply {

models::VectorTable choose_table(const TrainedModel& model, const std::string& name) {
  const std::vector<models::VectorTable> tables = model.parts->model->vectors(model.parts->state().parameters);
  if (tables.empty()) {
    throw ConfigError(
        fmt::format("{}: a model with model.kind = \"{}\" has no vectors of words, users, items or features",
                    model.checkpoint.path, model.config.model.kind));
  }
  if (name.empty() && tables.size() == 1) return tables.front();
  for (const models::VectorTable& table : tables) {
    if (table.name == name) return table;
  }
  std::vector<std::string> names;
  for (const models::VectorTable& table : tables) names.push_back(table.name);
  throw ConfigError(fmt::format("{}: has vectors of {}{}", model.checkpoint.path, fmt::join(names, " and of "),
                                name.empty() ? "; choose with --table" : fmt::format(", but none of {}", name)));
}

data::NameTable names_of(const TrainedModel& model, const models::VectorTable& table) {
  data::NameTable names{.table = table.name};
  if (session::has_names(model.checkpoint.header.inputs.kind)) {
    const data::Dictionary dictionary = session::dictionary_of(model.checkpoint, model.config);
    if (const data::NameTable* found = data::find_table(dictionary, table.name)) names = *found;
  }
  const auto rows = static_cast<std::size_t>(table.rows);
  if (names.names.empty()) {
    for (std::size_t row = 0; row < rows; ++row) names.names.push_back(std::to_string(row));
  }
  if (names.names.size() == rows) return names;
  throw DataError(
      fmt::format("{}: the model has vectors of {} {}, but {} have names in its run's dictionary.h5, or in its set "
                  "where that is missing; restore the one that it was trained with",
                  model.checkpoint.path, rows, table.name, names.names.size()));
}

Index row_of(const data::NameTable& names, const std::string& name, const std::string& model) {
  const auto found = std::find(names.names.begin(), names.names.end(), name);
  if (found != names.names.end()) return found - names.names.begin();
  const std::string near = nearest_name(name, names.names);
  throw DataError(fmt::format("'{}' is not among the {} {} of {}; {}", name, names.names.size(), names.table, model,
                              near.empty() ? "choose another one" : fmt::format("did you mean '{}'?", near)));
}

void read_row(const models::VectorTable& table, View parameters, Index row, MutableView vector) {
  std::fill(vector.begin(), vector.end(), 0.0F);
  for (const models::VectorTable::Component& part : table.parts) {
    const float* const values = parameters.data() + part.offset + row * part.stride;
    for (std::size_t k = 0; k < vector.size(); ++k) vector[k] += part.scale * values[k];
  }
}

}  // namespace unisono::apply
