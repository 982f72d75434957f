#include "digits/pen.hpp"

#include <algorithm>
#include <cmath>

namespace unisono::data::digits {
namespace {

/// Roughly standard normal out of 32 bits: the sum of four uniform bytes, whose deviation is √(4 (256² − 1) / 12).
float rough_normal(std::uint32_t bits) {
  const std::uint32_t sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
  return (static_cast<float>(sum) - 510.0F) / 147.8F;
}

int clamp_pixel(float at) { return std::clamp(static_cast<int>(std::floor(at)), 0, kDigitSide - 1); }

}  // namespace

void Sheet::draw_segment(Point from, Point to, float radius) {
  const float reach = radius + 1, dx = to.x - from.x, dy = to.y - from.y;
  const float squared = std::max(dx * dx + dy * dy, 1e-6F);
  const int x0 = clamp_pixel(std::min(from.x, to.x) - reach), x1 = clamp_pixel(std::max(from.x, to.x) + reach);
  const int y0 = clamp_pixel(std::min(from.y, to.y) - reach), y1 = clamp_pixel(std::max(from.y, to.y) + reach);
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      const float px = static_cast<float>(x) + 0.5F - from.x, py = static_cast<float>(y) + 0.5F - from.y;
      const float along = std::clamp((px * dx + py * dy) / squared, 0.0F, 1.0F);
      const float ex = px - along * dx, ey = py - along * dy;
      const float inked = std::clamp(radius + 0.5F - std::sqrt(ex * ex + ey * ey), 0.0F, 1.0F);
      float& pixel = ink_[static_cast<std::size_t>(y * kDigitSide + x)];
      pixel = std::max(pixel, inked);
    }
  }
}

void Sheet::draw(const std::vector<Point>& line, float start, float end) {
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    const float done = static_cast<float>(i) / static_cast<float>(line.size());
    draw_segment(line[i], line[i + 1], start + (end - start) * done);
  }
}

void Sheet::finish(float strength, float noise, RandomStream& random, Digit& digit) const {
  for (std::size_t i = 0; i < ink_.size(); ++i) {
    const float value = 255 * strength * ink_[i] + noise * rough_normal(random.bits());
    digit.pixels[i] = static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
  }
}

}  // namespace unisono::data::digits
