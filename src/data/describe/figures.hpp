#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dense/rows.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {

/// 1536 → "1.5 KiB"
std::string size_text(double bytes);

/// "12.3 %"
std::string share_text(std::int64_t part, std::int64_t whole);

/// The line above the table of classes. \param counts examples of each class
std::string labels_line(std::string_view type, const std::vector<std::int64_t>& counts);

/// A line for each class: number, name, examples and their share. If there are many classes, only the first ones.
/// \param whole of which the shares are; nothing: the sum of the counts
std::string balance_text(const std::vector<std::int64_t>& counts, const std::vector<std::string>& names,
                         std::optional<std::int64_t> whole = {});

/// "PATH: SIZE, ": the beginning of a description's first line.
std::string title_text(const hdf5::File& file);

/// Range, mean and deviation of a group's values.
struct Survey {
  double low = 0, high = 0, mean = 0, deviation = 0;
  std::int64_t examples = 0;  ///< that were read
};

/// Surveys the features; of a large group only evenly spaced blocks are read, about 256 MiB.
Survey survey_features(const hdf5::File& file, const GroupSchema& group);
Survey survey_targets(const hdf5::File& file, const GroupSchema& group);

/// How many examples have each label.
std::vector<std::int64_t> count_labels(const hdf5::File& file, const GroupSchema& group);

/// Accumulates range, mean and deviation, the latter two from sums in double of values shifted by the first one.
class Tally {
 public:
  void add(double value) {
    if (count_ == 0) shift_ = value;
    const double x = value - shift_;
    sum_ += x;
    squares_ += x * x;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
    ++count_;
  }
  double count() const { return count_; }
  /// \pre a value was added \param examples for Survey::examples
  Survey survey(std::int64_t examples) const {
    const double mean = sum_ / count_;
    return {low_, high_, shift_ + mean, std::sqrt(std::max(0.0, squares_ / count_ - mean * mean)), examples};
  }

 private:
  double count_ = 0, shift_ = 0, sum_ = 0, squares_ = 0;
  double low_ = std::numeric_limits<double>::max(), high_ = std::numeric_limits<double>::lowest();
};

/// "1 to 5, mean 3.5, deviation 1.1"
std::string survey_text(const Survey& survey);

/// Draws images side by side as text, one character per pixel and per two rows, from blank (smallest value) to @
/// (largest). Wide images are reduced; channels are averaged.
/// \param images each [C, H, W]
std::string draw_images(const std::vector<std::vector<float>>& images, const FeatureShape& shape);

/// Describes a set that is not a table, in some lines of text; nothing if the file is not such a set. Reads all of it.
/// \throws DataError if it violates docs/data-format.md
std::optional<std::string> describe_sparse(const hdf5::File& file);

// One of each kind.
std::string describe_csr(const hdf5::File& file);
std::string describe_ratings(const hdf5::File& file);
std::string describe_text(const hdf5::File& file);
std::string describe_cooccurrences(const hdf5::File& file);
std::string describe_tokens(const hdf5::File& file);

}  // namespace unisono::data
