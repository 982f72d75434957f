#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/data/preprocessing.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::data {

/// Encodes a file's raw columns as a model's features: a number as it is (a missing one is imputed), a category one-hot
/// over its levels. Columns are matched by name, levels by text: a file may have both in another order than the
/// training set, and additional columns.
class Encoder {
 public:
  /// \param fitted the preprocessing as fitted on the training examples \param file the recipe of the file that is read
  /// \throws DataError naming `path` and the column that is missing or of another kind
  Encoder(const Preprocessing& fitted, const Recipe& file, const std::string& path);

  Index width() const { return width_; }          ///< features of the model
  Index raw_width() const { return raw_width_; }  ///< stored values per example
  /// \param raw [raw_width()] \param features [width()], overwritten \param where the beginning of error messages, e.g.
  /// file and dataset \throws DataError naming column and value that cannot be encoded
  void encode(const float* raw, float* features, const std::string& where, std::int64_t example) const;

 private:
  static constexpr std::int32_t kRefused = -1, kNoLevel = -2;

  struct Column {
    FittedColumn fitted;
    std::size_t from = 0;                   ///< its number in the file
    std::vector<std::string> levels = {};   ///< of the file
    std::vector<std::int32_t> places = {};  ///< for each of these the feature, kRefused or kNoLevel
  };
  static std::vector<std::int32_t> places_of(const FittedColumn& fitted, const RecipeColumn& stored, Unknown unknown);
  [[noreturn]] static void refuse(const Column& column, float raw, const std::string& where, std::int64_t example);

  std::vector<Column> columns_;
  Index width_ = 0, raw_width_ = 0;
};

/// The value of a text if it is a number below 2⁵³. Larger ones, e.g. account numbers, count as text, because different
/// ones may have the same double.
std::optional<double> exact_number(std::string_view text);

/// Finds a text among the levels of a category, or among names of classes. If all of these are numbers, texts are
/// compared by value: "1.0" is the level "1".
class LevelIndex {
 public:
  explicit LevelIndex(const std::vector<std::string>& levels);
  std::optional<std::size_t> find(std::string_view text) const;

 private:
  std::vector<std::string> levels_;
  std::vector<double> values_;  ///< of the levels; empty if not all are numbers
};

/// "red, green, …": the first ten names, for a message.
std::string listed(std::vector<std::string> names);

/// \throws DataError saying that `path` lacks a column that the model was trained on, and which columns it has
[[noreturn]] void fail_without_column(const std::string& path, const std::string& column,
                                      const std::vector<std::string>& there);

}  // namespace unisono::data
