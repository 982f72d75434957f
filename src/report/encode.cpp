#include "encode.hpp"

#include <zlib.h>

#include <vector>

namespace unisono::report {
namespace {

/// Big-endian, as PNG has numbers.
std::string bytes_of(std::uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(number >> shift & 255U));
  return bytes;
}

const Bytef* data_of(std::string_view bytes) { return reinterpret_cast<const Bytef*>(bytes.data()); }

/// Length, kind, content, checksum.
std::string chunk(const std::string& kind, const std::string& content) {
  const std::string summed = kind + content;
  const auto sum = static_cast<std::uint32_t>(crc32(0, data_of(summed), static_cast<uInt>(summed.size())));
  return bytes_of(static_cast<std::uint32_t>(content.size())) + summed + bytes_of(sum);
}

std::string compressed(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string result(size, '\0');
  compress(reinterpret_cast<Bytef*>(result.data()), &size, data_of(bytes), bytes.size());
  result.resize(size);
  return result;
}

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8U | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += i + k <= bytes.size() ? kDigits[group >> (6 * (3 - k)) & 63U] : '=';
    }
  }
  return text;
}

std::string png_of(int width, int height, int channels, std::span<const std::uint8_t> pixels) {
  const auto row = static_cast<std::size_t>(width) * static_cast<std::size_t>(channels);
  std::string lines;
  for (std::size_t y = 0; y < static_cast<std::size_t>(height); ++y) {
    lines.push_back('\0');  // no filter
    const auto line = pixels.subspan(y * row, row);
    lines.append(line.begin(), line.end());
  }
  const std::string depth_and_colour = {8, static_cast<char>(channels == 3 ? 2 : 0), 0, 0, 0};
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", bytes_of(static_cast<std::uint32_t>(width)) + bytes_of(static_cast<std::uint32_t>(height)) +
                           depth_and_colour) +
         chunk("IDAT", compressed(lines)) + chunk("IEND", "");
}

}  // namespace unisono::report
