#pragma once

#include <string>

namespace unisono {

/// What to do about a file that cannot be written: that its folder is gone, where that is the reason, else `otherwise`.
std::string advice_about(const std::string& path, const std::string& otherwise);

}  // namespace unisono
