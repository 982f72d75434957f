#pragma once

#include <cstdint>

namespace unisono {

/// part / whole; 0 of nothing
inline double ratio(double part, std::int64_t whole) { return whole == 0 ? 0 : part / static_cast<double>(whole); }

}  // namespace unisono
