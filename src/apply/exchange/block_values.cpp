#include "exchange/block_values.hpp"

#include <algorithm>

namespace unisono::apply {

std::vector<float> BlockValues::operator()(const std::string& name) const {
  const models::Model& model = *model_.parts->model;
  const auto& parameters = model.layout().blocks();
  const bool is_parameter = std::ranges::find(parameters, name, &Block::name) != parameters.end();
  const Block& block = is_parameter ? model.layout().block(name) : model.statistics_layout().block(name);
  const View vector = is_parameter ? model_.parts->parameters.view() : model_.parts->statistics.view();
  std::vector<float> canonical(static_cast<std::size_t>(block.size()));
  to_canonical(block, part(vector, block), canonical);
  return canonical;
}

}  // namespace unisono::apply
