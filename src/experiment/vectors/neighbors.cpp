#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "unisono/base/config.hpp"
#include "unisono/experiment/vectors.hpp"
#include "vectors/nearest.hpp"
#include "vectors/tables.hpp"

namespace unisono {
namespace {

Index row_of(const std::string& name, const NameTable& names, const std::string& model) {
  const auto found = std::find(names.names.begin(), names.names.end(), name);
  if (found != names.names.end()) return found - names.names.begin();
  const std::string near = nearest_name(name, names.names);
  throw DataError(fmt::format("'{}' is not among the {} {} of {}; {}", name, names.names.size(), names.table, model,
                              near.empty() ? "choose another one" : fmt::format("did you mean '{}'?", near)));
}

}  // namespace

void neighbors(const NeighborOptions& options, Log& log) {
  const auto alone = make_self_communicator();
  TrainedModel model(*alone, options.model, log, TrainedModel::With::nothing);
  const VectorTable table = choose_table(model, options.table);
  const NameTable names = names_of(model, table);
  std::vector<Index> asked;
  for (const std::string& name : options.names) asked.push_back(row_of(name, names, model.path));
  const auto found = nearest(table, model.parts->parameters.view(), asked, static_cast<std::size_t>(options.top));

  nlohmann::ordered_json lists = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < found.size(); ++i) {
    auto& list = lists.emplace_back(nlohmann::ordered_json{{"name", options.names[i]}});
    list["neighbors"] = nlohmann::ordered_json::array();
    if (!options.json) log.info(options.names[i]);
    for (const Neighbor& neighbor : found[i]) {
      const std::string& name = names.names[static_cast<std::size_t>(neighbor.row)];
      list["neighbors"].push_back({{"name", name}, {"cosine", neighbor.cosine}});
      if (!options.json) log.info(fmt::format("  {:24} {:.4f}", name, neighbor.cosine));
    }
  }
  if (!options.json) return;
  log.info(nlohmann::ordered_json{
      {"checkpoint", model.path}, {"step", model.header.step}, {"table", table.name}, {"lists", std::move(lists)}}
               .dump());
}

}  // namespace unisono
