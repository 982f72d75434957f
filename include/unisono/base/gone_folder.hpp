#pragma once

#include <string>

namespace unisono {

/// Advice for the message about a file that cannot be written: that its folder no longer exists, if so; else
/// `otherwise`.
std::string advice_about(const std::string& path, const std::string& otherwise);

}  // namespace unisono
