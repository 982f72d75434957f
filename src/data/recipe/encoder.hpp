#pragma once

#include <string>
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

}  // namespace unisono::data
