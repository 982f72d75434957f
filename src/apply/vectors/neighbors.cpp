#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "unisono/apply/vectors.hpp"
#include "vectors/nearest.hpp"
#include "vectors/tables.hpp"

namespace unisono::apply {
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
    if (!options.json) log.info(options.names[i]);
    for (const Scored& neighbor : found[i]) {
      const std::string& name = names.names[static_cast<std::size_t>(neighbor.row)];
      list["neighbors"].push_back({{"name", name}, {"cosine", neighbor.score}});
      if (!options.json) log.info(fmt::format("  {:24} {:.4f}", name, neighbor.score));
    }
  }
  if (!options.json) return;
  log.info(nlohmann::ordered_json{{"checkpoint", model.checkpoint.path},
                                  {"step", model.checkpoint.header.step},
                                  {"table", table.name},
                                  {"lists", std::move(lists)}}
               .dump());
}

}  // namespace unisono::apply
