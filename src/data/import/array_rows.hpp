#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "import/arrays.hpp"

namespace unisono::data {

/// Arrays whose rows follow each other: one, or several whose rows have the same shape.
class ArrayRows {
 public:
  /// Looks at their headers. \throws DataError for rows of different shapes, or too many axes or values
  explicit ArrayRows(std::vector<OpenArray> arrays);
  /// \throws DataError for rows of another shape than those of `like`, and where one of these arrays holds unsigned
  /// bytes and the first one of `like` does not, or the other way round: they may stand for other numbers
  void require_alike(const ArrayRows& like) const;

  std::int64_t rows() const { return rows_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }  ///< of a row; a single value: empty
  std::size_t width() const { return width_; }                       ///< values of a row
  bool bytes() const { return forms_.front().bytes; }                ///< whether the first one holds unsigned bytes
  bool fit_float() const { return fit_float_; }      ///< whether a float32 holds any value of their types exactly
  const std::string& name() const { return name_; }  ///< of the first one

  const std::vector<OpenArray>& arrays() const { return arrays_; }
  const std::vector<ArrayForm>& forms() const { return forms_; }

 private:
  void add(const ArrayReader& array);

  std::vector<OpenArray> arrays_;
  std::vector<ArrayForm> forms_;  ///< of each of them
  std::string name_;
  std::vector<std::int64_t> shape_;
  std::int64_t rows_ = 0;
  std::size_t width_ = 1;
  bool fit_float_ = true;
};

/// Reads their rows, one after the other.
class RowCursor {
 public:
  explicit RowCursor(const ArrayRows& rows) : rows_(rows) {}

  /// False behind the last row, when all arrays are known to be whole.
  bool next();
  /// The row that `next` went to; valid until it goes on.
  std::span<const double> row() const { return std::span(block_).subspan(at_ * rows_.width(), rows_.width()); }
  /// \throws DataError "x.npy: row 3: WHAT", counted from 0 as NumPy does
  [[noreturn]] void fail(const std::string& what) const;

 private:
  bool refill();

  const ArrayRows& rows_;
  std::unique_ptr<ArrayReader> array_;
  std::size_t opened_ = 0;             ///< arrays
  std::int64_t begin_ = 0, left_ = 0;  ///< of the array: where the block begins; rows that are not read
  std::vector<double> block_;          ///< [rows of it, width]
  std::size_t at_ = 0, rows_in_block_ = 0;
};

}  // namespace unisono::data
