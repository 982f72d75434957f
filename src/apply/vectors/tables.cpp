#include "vectors/tables.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "unisono/apply/vectors.hpp"
#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/printable.hpp"
#include "unisono/records/json_line.hpp"
#include "unisono/session/run_checks.hpp"

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

Vocabulary::Vocabulary(data::NameTable names)
    : names_(std::move(names)), lower_case_(data::lowercase(names_.names) == names_.names) {
  for (std::size_t row = 0; row < size(); ++row) rows_.emplace(names_.names[row], static_cast<std::int32_t>(row));
}

std::vector<std::int32_t> Vocabulary::find(std::vector<std::string> words) const {
  if (lower_case_) words = data::lowercase(std::move(words));
  std::vector<std::int32_t> found;
  for (const std::string& word : words) {
    const auto row = rows_.find(word);
    found.push_back(row == rows_.end() ? -1 : row->second);
  }
  return found;
}

std::vector<std::int32_t> Vocabulary::most_frequent(std::int64_t count) const {
  std::vector<std::int32_t> rows(size());
  std::iota(rows.begin(), rows.end(), 0);
  const auto& counts = names_.counts;
  if (!counts.empty()) {
    std::stable_sort(rows.begin(), rows.end(), [&](std::int32_t a, std::int32_t b) {
      return counts[static_cast<std::size_t>(a)] > counts[static_cast<std::size_t>(b)];
    });
  }
  rows.resize(std::min(rows.size(), static_cast<std::size_t>(count)));
  return rows;
}

namespace {

double product(View a, View b) {
  double sum = 0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += static_cast<double>(a[k]) * static_cast<double>(b[k]);
  return sum;
}

}  // namespace

double cosine(View a, View b) {
  const double squares = product(a, a) * product(b, b);
  return squares == 0 ? 0 : product(a, b) / std::sqrt(squares);
}

std::vector<std::vector<Scored>> nearest(const models::VectorTable& table, View parameters,
                                         const std::vector<Index>& asked, std::size_t top) {
  const auto width = static_cast<std::size_t>(table.width);
  std::vector<std::vector<float>> queries(asked.size(), std::vector<float>(width));
  for (std::size_t i = 0; i < asked.size(); ++i) read_row(table, parameters, asked[i], queries[i]);

  std::vector<Best> best(asked.size(), Best(top));
  std::vector<float> vector(width);
  for (Index row = 0; row < table.rows; ++row) {
    read_row(table, parameters, row, vector);
    if (product(vector, vector) == 0) continue;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (row != asked[i]) best[i].offer({.row = row, .score = cosine(queries[i], vector)});
    }
  }
  std::vector<std::vector<Scored>> found;
  for (Best& one : best) found.push_back(one.take());
  return found;
}

void neighbors(const NeighborOptions& options, Log& log) {
  const auto alone = comm::make_self_communicator();
  TrainedModel model(*alone, options.model, log, TrainedModel::With::nothing);
  const models::VectorTable table = choose_table(model, options.table);
  const data::NameTable names = names_of(model, table);
  std::vector<Index> asked;
  for (const std::string& name : options.names) asked.push_back(row_of(names, name, model.checkpoint.path));
  const auto found = nearest(table, model.parts->parameters.view(), asked, static_cast<std::size_t>(options.top));

  nlohmann::ordered_json lists = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < found.size(); ++i) {
    auto& list = lists.emplace_back(nlohmann::ordered_json{{"name", options.names[i]}});
    list["neighbors"] = nlohmann::ordered_json::array();
    if (!options.json) log.info(on_one_line(options.names[i]));
    for (const Scored& neighbor : found[i]) {
      const std::string& name = names.names[static_cast<std::size_t>(neighbor.row)];
      list["neighbors"].push_back({{"name", name}, {"cosine", neighbor.score}});
      if (!options.json) log.info(fmt::format("  {:24} {:.4f}", on_one_line(name), neighbor.score));
    }
  }
  if (!options.json) return;
  log.info(records::json_line({{"checkpoint", model.checkpoint.path},
                               {"step", model.checkpoint.header.step},
                               {"table", table.name},
                               {"lists", std::move(lists)}}));
}

}  // namespace unisono::apply
