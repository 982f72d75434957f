#include "plot/rows.hpp"

#include <algorithm>

#include "plot/colours.hpp"

namespace unisono::report::plot {
namespace {

constexpr double kRoomForNumber = 64, kRowsTop = 8, kWidestRowName = 220;  // right: room for a number behind a bar

Box area_of(const RowFrame::Size& size, const std::vector<std::string>& rows, const std::vector<Key>& keys) {
  double names = 0;
  for (const std::string& row : rows) names = std::max(names, width_of(row));
  const double left = std::min(names, kWidestRowName) + 10;
  const double top = kRowsTop + legend_height(keys, size.width - 20);
  return {left, top, size.width - left - kRoomForNumber, size.row_height * static_cast<double>(rows.size())};
}

}  // namespace

std::string shortened(const std::string& name, double width, double size) {
  if (width_of(name, size) <= width) return name;
  const auto bytes = std::min(name.size(), static_cast<std::size_t>(std::max(1.0, width / (0.6 * size) - 1)));
  const auto is_within_character = [&](std::size_t at) {
    return at < name.size() && (static_cast<unsigned char>(name[at]) & 0xC0U) == 0x80U;
  };
  std::size_t head = bytes - bytes / 3, tail = name.size() - bytes / 3;
  while (head > 0 && is_within_character(head)) --head;
  while (is_within_character(tail)) ++tail;
  return name.substr(0, head) + "…" + name.substr(tail);
}

RowFrame::RowFrame(const Size& size, const std::vector<std::string>& rows, const std::vector<Key>& keys,
                   const Axis& axis, const Span& values, Scale::Ends ends)
    : row_height_(size.row_height),
      area_(area_of(size, rows, keys)),
      scale_(axis, values, ends, area_.x, area_.x + area_.width),
      drawing_(size.width, area_.y + area_.height + room_below(axis.label)) {
  draw_legend(drawing_, {4, kRowsTop - 4}, size.width - 20, keys);
  draw_x_axis(drawing_, area_, scale_, axis.label);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    drawing_.text({area_.x - 8, middle_of(row) + 4}, shortened(rows[row], kWidestRowName),
                  {.size = kFontSize, .anchor = Anchor::end, .colour = kText});
  }
}

}  // namespace unisono::report::plot
