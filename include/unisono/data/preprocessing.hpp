#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"

// A set holds raw values and a recipe: what its columns are, and how they become features. A run fits the recipe on its
// own training examples, and keeps the fit in its checkpoints, so that the model sees new data as it saw those.

namespace unisono::data {

/// What features are normalised with: (x − mean[i]) · scale[i], where i counts channels, features, or one for all.
/// Empty: not at all.
struct Normalization {
  std::vector<float> mean, scale;
};

enum class ColumnKind {
  number,   ///< one feature
  category  ///< one feature for each level: 1 for the example's level, 0 for the others
};

/// What becomes of a missing value.
enum class Missing { error, mean, median };

inline constexpr Named<Missing> kMissing[] = {
    {Missing::error, "error", "it is refused"},
    {Missing::mean, "mean",
     "a number becomes the mean of the training examples; a missing category is a level of its own"},
    {Missing::median, "median", "likewise, with the median"}};

/// What becomes of a level that too few training examples have.
enum class Unknown { error, other };

inline constexpr Named<Unknown> kUnknown[] = {
    {Unknown::error, "error", "it is refused"},
    {Unknown::other, "other", "it counts as the level \"other\", or as no level where no training example has that"}};

enum class Scaling { none, standard, min_max };

inline constexpr Named<Scaling> kScalings[] = {
    {Scaling::none, "none", "as it is"},
    {Scaling::standard, "standard", "minus the mean, over the standard deviation"},
    {Scaling::min_max, "min_max", "from 0 (the smallest training value) to 1 (the largest)"}};

/// The bytes of a text.
enum class Encoding { utf8, latin1 };

inline constexpr Named<Encoding> kEncodings[] = {
    {Encoding::utf8, "utf-8", "UTF-8"},
    {Encoding::latin1, "latin1", "ISO 8859-1, with the characters of Windows-1252, such as €, from 0x80 to 0x9F"}};

/// How a table is written, as the import was told. Tables for the trained model are read in the same way.
struct TableForm {
  std::string delimiter = "auto";  ///< auto, tab, or one character; a blank stands for any number of blanks and tabs
  std::string decimal = ".";       ///< "." or ","
  std::string thousands = {};      ///< one character between groups of three digits; empty: none
  /// Texts that stand for no value, in small or capital letters, beside the empty one.
  std::vector<std::string> missing_values = {"?", "NA", "N/A", "NaN", "null"};
  Encoding encoding = Encoding::utf8;
  bool operator==(const TableForm&) const = default;
};

/// A column of raw values. Levels are stored as their numbers in `levels`; "" stands for a missing one.
struct RecipeColumn {
  std::string name;
  ColumnKind kind = ColumnKind::number;
  std::vector<std::string> levels = {};
  bool operator==(const RecipeColumn&) const = default;
};

/// How raw values become features, as the import was told.
struct Recipe {
  std::vector<RecipeColumn> columns = {};  ///< of a table, in the order in which they are stored
  bool header = true;                      ///< whether the source named its columns
  std::int64_t fields = 0;                 ///< of a row of the source, with those that are no features
  Missing missing = Missing::error;
  Unknown unknown = Unknown::error;
  std::int64_t minimum_frequency = 1;     ///< a level that fewer training examples have is unknown
  Scaling scaling = Scaling::none;        ///< of columns of numbers
  std::string label = {}, target = {};    ///< the columns to predict; empty: none
  std::optional<std::int64_t> base = {};  ///< LIBSVM: the index of the first column
  TableForm form = {};                    ///< how the source was written

  bool empty() const { return columns.empty() && !base; }
};

/// What a recipe's column became on the training examples.
struct FittedColumn {
  std::string name;
  ColumnKind kind = ColumnKind::number;
  std::optional<double> fill = {};       ///< of numbers: in place of a missing one; empty: that is refused
  double low = 0, high = 0;              ///< of numbers: range of the training values, where the scaling needs it
  std::vector<std::string> levels = {};  ///< a feature each
  bool other = false;                    ///< a further feature, for the level "other"

  std::int64_t width() const {
    return kind == ColumnKind::number ? 1 : static_cast<std::int64_t>(levels.size()) + (other ? 1 : 0);
  }
};

/// All that a trained model has to know to read examples as it read those that it was trained on.
struct Preprocessing {
  Recipe recipe = {};
  std::vector<FittedColumn> columns = {};  ///< empty: features are what is stored
  Normalization normalization = {};
  std::vector<std::string> class_names = {};    ///< empty: the set did not say
  std::vector<std::string> feature_names = {};  ///< of stored features without a recipe; empty: the set did not say
  bool bytes = false;                           ///< whether features were stored as bytes, …
  float scale = 1, offset = 0;                  ///< a value of an image of bytes is scale · byte + offset
  std::vector<std::int32_t> untrained_classes = {};  ///< of which there was no training example, ascending
  bool known = false;  ///< false: a checkpoint of an earlier version, which kept the normalisation alone

  /// "age", "colour=red", …, "colour=other": one for each feature of the model; empty where there is no recipe.
  std::vector<std::string> encoded_names() const;
};

/// The JSON that files hold; the normalisation is not in it.
std::string to_json(const Recipe& recipe);
std::string to_json(const Preprocessing& preprocessing);
/// \throws DataError naming `where` for text that is no recipe
Recipe recipe_from_json(const std::string& text, const std::string& where);
Preprocessing preprocessing_from_json(const std::string& text, const std::string& where);

}  // namespace unisono::data
