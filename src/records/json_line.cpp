#include "unisono/records/json_line.hpp"

#include <nlohmann/json.hpp>

namespace unisono::records {

std::string json_line(const nlohmann::ordered_json& object) {
  return object.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace unisono::records
