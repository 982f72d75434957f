#include "import/row_split.hpp"

#include <fmt/format.h>

#include <cmath>

#include "unisono/base/errors.hpp"

namespace unisono::data {

void check_shares(const Shares& shares, const std::string& what, const std::string& test_file) {
  for (const double fraction : {shares.validation, shares.test}) {
    if (!(fraction >= 0 && fraction < 1))
      throw ConfigError(fmt::format("a fraction of {} of the {} is not possible; it must be at least 0 and less than 1",
                                    fraction, what));
  }
  if (shares.validation + shares.test >= 1) {
    throw ConfigError(
        fmt::format("--validation-fraction and --test-fraction leave no {} for training; use smaller fractions", what));
  }
  if (!test_file.empty() && shares.test > 0) {
    throw ConfigError("--test-file and --test-fraction cannot be combined");
  }
}

std::int64_t share_of(std::int64_t rows, double fraction) { return std::llround(fraction * static_cast<double>(rows)); }

RowSplit::RowSplit(std::int64_t rows, const Shares& shares)
    : order_(static_cast<std::uint64_t>(rows), RandomStream(shares.seed, Purpose::split)),
      test_(share_of(rows, shares.test)),
      validation_(share_of(rows, shares.validation)) {}

std::int64_t RowSplit::size(Split split) const {
  const auto all = static_cast<std::int64_t>(order_.size());
  return split == Split::test ? test_ : split == Split::validation ? validation_ : all - test_ - validation_;
}

Split RowSplit::of(std::int64_t row) const {
  if (test_ + validation_ == 0) return Split::train;
  const auto place = static_cast<std::int64_t>(order_(static_cast<std::uint64_t>(row)));
  if (place < test_) return Split::test;
  return place < test_ + validation_ ? Split::validation : Split::train;
}

}  // namespace unisono::data
