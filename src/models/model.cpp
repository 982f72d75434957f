#include "unisono/models/model.hpp"

#include "unisono/base/errors.hpp"

namespace unisono::models {

void Model::predict_layer(const std::string&) {
  throw ConfigError("--layer: only networks (model.kind = \"network\") have layers whose outputs can be written");
}

}  // namespace unisono::models
