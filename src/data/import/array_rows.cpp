#include "import/array_rows.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr std::size_t kMostArrayAxes = 4;
constexpr std::size_t kMostValues = std::size_t{1} << 26;  // of a row
constexpr std::size_t kValuesAtOnce = 1 << 16, kMostValuesAtOnce = 1 << 24;

std::string shape_text(const std::vector<std::int64_t>& extent) { return fmt::format("({})", fmt::join(extent, ", ")); }

}  // namespace

ArrayRows::ArrayRows(std::vector<OpenArray> arrays) : arrays_(std::move(arrays)) {
  for (const OpenArray& open : arrays_) add(*open());
}

void ArrayRows::add(const ArrayReader& array) {
  const ArrayForm& form = array.form();
  const auto fail = [&](const std::string& what) { throw DataError(fmt::format("{}: {}", array.name(), what)); };
  if (form.extent.empty()) fail("is a single number, not an array; its first axis must count the examples");
  if (form.extent.size() > kMostArrayAxes) {
    fail(fmt::format("has {} axes; arrays of up to {} can be imported", form.extent.size(), kMostArrayAxes));
  }
  if (std::ranges::count(form.extent, 0) > 0) {
    fail(fmt::format("has no values: its shape is {}", shape_text(form.extent)));
  }
  const std::vector<std::int64_t> shape(form.extent.begin() + 1, form.extent.end());
  if (name_.empty()) {
    name_ = array.name();
    shape_ = shape;
    for (const std::int64_t n : shape) width_ *= static_cast<std::size_t>(std::min<std::int64_t>(n, kMostValues + 1));
    if (width_ > kMostValues ||
        std::ranges::any_of(shape, [](std::int64_t n) { return n > std::int64_t{kMostValues}; }))
      fail(fmt::format("has rows of the shape {}, which are too large; a row has at most {} values", shape_text(shape),
                       kMostValues));
  }
  if (shape != shape_) {
    fail(
        fmt::format("has rows of the shape {}, but those of {} have {}; arrays that follow each other must have rows "
                    "of the same shape",
                    shape_text(shape), name_, shape_text(shape_)));
  }
  rows_ += form.extent[0];
  bytes_ = bytes_ && form.bytes;
  fit_float_ = fit_float_ && form.fits_float;
}

bool RowCursor::refill() {
  while (left_ == 0) {
    if (array_ != nullptr) array_->finish();
    if (opened_ == rows_.arrays().size()) return false;
    array_ = rows_.arrays()[opened_++]();
    left_ = array_->form().extent.at(0);
    begin_ = 0;
    rows_in_block_ = 0;
  }
  begin_ += static_cast<std::int64_t>(rows_in_block_);
  const auto chunk = static_cast<std::size_t>(array_->form().rows_at_once);
  const std::size_t most = std::max<std::size_t>(1, kMostValuesAtOnce / rows_.width());
  std::size_t rows = std::max<std::size_t>(1, kValuesAtOnce / rows_.width());
  if (chunk > 1) rows = std::min(most, (rows + chunk - 1) / chunk * chunk);
  rows_in_block_ = std::min(rows, static_cast<std::size_t>(left_));
  left_ -= static_cast<std::int64_t>(rows_in_block_);
  block_.resize(rows_in_block_ * rows_.width());
  array_->read(block_);
  return true;
}

bool RowCursor::next() {
  if (++at_ < rows_in_block_) return true;
  at_ = 0;
  return refill();
}

void RowCursor::fail(const std::string& what) const {
  throw DataError(fmt::format("{}: row {}: {}", array_->name(), begin_ + static_cast<std::int64_t>(at_), what));
}

}  // namespace unisono::data
