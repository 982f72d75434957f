#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace unisono::report {

std::string base64(std::string_view bytes);

/// A picture as a PNG file. \param channels 1 (gray) or 3 (red, green, blue)
/// \param pixels [height, width, channels]
std::string png_of(int width, int height, int channels, std::span<const std::uint8_t> pixels);

}  // namespace unisono::report
