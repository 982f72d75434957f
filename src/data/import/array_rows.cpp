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
    constexpr std::size_t kTooMany = kMostValues + 1;
    for (const std::int64_t n : shape)
      width_ = std::min(kTooMany, width_ * static_cast<std::size_t>(std::min<std::int64_t>(n, kTooMany)));
    if (width_ > kMostValues)
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
  fit_float_ = fit_float_ && form.fits_float;
  forms_.push_back(form);
}

void ArrayRows::require_alike(const ArrayRows& like) const {
  if (shape_ != like.shape_) {
    throw DataError(fmt::format("{}: has rows of the shape {}, but those of {} have {}", name_, shape_text(shape_),
                                like.name_, shape_text(like.shape_)));
  }
  const auto other = std::ranges::find(forms_, !like.bytes(), &ArrayForm::bytes);
  if (other == forms_.end()) return;
  const std::string name = arrays_[static_cast<std::size_t>(other - forms_.begin())]()->name();
  throw DataError(fmt::format("{}: {} bytes (uint8), but {} {}; store both as the same type", name,
                              other->bytes ? "holds" : "holds other numbers than", like.name_,
                              other->bytes ? "does not" : "holds them"));
}

bool RowCursor::refill() {
  while (left_ == 0) {
    if (array_ != nullptr) array_->finish();
    if (opened_ == rows_.arrays().size()) return false;
    array_ = rows_.arrays()[opened_]();
    if (array_->form() != rows_.forms()[opened_++])
      throw DataError(array_->name() + ": changed while it was being read");
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
