#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace unisono {

/// "1,234,567"
std::string grouped(std::int64_t number);

/// "1 rank", "2 ranks", "1,234 classes", "3 entries".
/// \param noun a regular one, in the singular
std::string count_of(std::int64_t count, std::string_view noun);

/// Seconds with three digits: "12.3 µs", "4.56 ms", "7.89 s".
std::string duration_text(double seconds);

/// "straggler wait" of "straggler_wait"
std::string words_of(std::string_view name);

/// "a, b or c"
std::string any_of(const std::vector<std::string_view>& names);

}  // namespace unisono
