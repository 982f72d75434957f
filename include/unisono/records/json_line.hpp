#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace unisono::records {

/// What `--json` prints. Bytes of a path that are no UTF-8 become U+FFFD, since JSON cannot hold them.
std::string json_line(const nlohmann::ordered_json& object);

}  // namespace unisono::records
