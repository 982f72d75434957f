#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "unisono/base/text.hpp"

#include "plot/frame.hpp"

namespace unisono::report {

using plot::number_text;

/// "0.42 s", "0:12", "1:02:03"
std::string duration_text(double seconds);
/// A part of a whole: "12.3 %"
std::string share_text(double part, double whole);
/// The number of this name in an object; NaN where there is none.
double number_in(const nlohmann::ordered_json& object, const char* name);
/// A value of a config without the quotes of a string.
std::string unquoted(const std::string& value);

}  // namespace unisono::report
