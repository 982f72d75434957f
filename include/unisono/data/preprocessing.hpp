#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/data/images.hpp"

// A set holds raw values and a recipe: what its columns are, and how they become features. A run fits the recipe on its
// own training examples, and keeps the fit in its checkpoints, so that the model sees new data as it saw the training
// examples.

namespace unisono::data {

struct TokenizerParts;

/// How many bytes the text of each token has.
using TokenBytes = std::shared_ptr<const std::vector<std::uint16_t>>;

/// What features are normalised with: (x − mean[i]) · scale[i], where i counts channels, features, or one for all.
/// Empty: not at all.
struct Normalization {
  std::vector<float> mean, scale;
};

/// What the values of a column are.
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
    {Missing::median, "median",
     "a number becomes the median of the training examples; a missing category is a level of its own"}};

/// What becomes of a level of a category that too few training examples have.
enum class Unknown { error, other };

inline constexpr Named<Unknown> kUnknown[] = {
    {Unknown::error, "error", "it is refused"},
    {Unknown::other, "other", "it counts as the level \"other\", or as no level where no training example has that"}};

/// How numbers are scaled.
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

/// How a table is written, as its import was told. Tables to which a trained model is applied are read in the same way.
struct TableForm {
  std::string delimiter = "auto";  ///< auto, tab, or one character; a blank stands for any number of blanks and tabs
  std::string decimal = ".";       ///< "." or ","
  std::string thousands = {};      ///< one character between groups of three digits; empty: none
  /// Texts that stand for no value, in small or capital letters, beside the empty one.
  std::vector<std::string> missing_values = {"?", "NA", "N/A", "NaN", "null"};
  Encoding encoding = Encoding::utf8;
  bool operator==(const TableForm&) const = default;
};

/// A column of raw values. Levels are stored as their numbers in `levels`; "" stands for a missing level.
struct RecipeColumn {
  std::string name;
  ColumnKind kind = ColumnKind::number;
  std::vector<std::string> levels = {};
  bool operator==(const RecipeColumn&) const = default;
};

/// In which order a date is written.
enum class DateOrder { ymd, dmy, mdy };

inline constexpr Named<DateOrder> kDateOrders[] = {
    {DateOrder::ymd, "ymd", "2024-03-01, as in ISO 8601"},
    {DateOrder::dmy, "dmy", "01/03/2024 is the first of March; also 01.03.2024 and 01-03-2024"},
    {DateOrder::mdy, "mdy", "03/01/2024 is the first of March"}};

/// A column of dates, of each of which several features are made.
struct DateColumn {
  std::string name;
  DateOrder order = DateOrder::ymd;
  bool hours = false;  ///< whether there were times of the day at the import
  bool operator==(const DateColumn&) const = default;

  /// "day.year", "day.month", "day.weekday" (Monday is 1), "day.days" (since 1970-01-01), "day.hour" (12.5 is 12:30)
  std::vector<std::string> features() const;
};

/// How raw values become features, as the import of a set was told.
struct Recipe {
  std::vector<RecipeColumn> columns = {};  ///< columns of a table, in the order in which they are stored
  std::vector<DateColumn> dates = {};      ///< columns of the source whose features are among `columns`
  bool header = true;                      ///< whether the source named its columns
  std::int64_t fields = 0;                 ///< fields of a row of the source, with those that are no features
  Missing missing = Missing::error;
  Unknown unknown = Unknown::error;
  std::int64_t minimum_frequency = 1;     ///< a level that fewer training examples have is unknown
  Scaling scaling = Scaling::none;        ///< scaling of columns of numbers
  std::string label = {}, target = {};    ///< the columns to predict; empty: none
  std::string text = {};                  ///< texts with classes: the column of the texts; empty: there is none
  std::optional<std::int64_t> base = {};  ///< LIBSVM: the index of the first column
  std::optional<ImageForm> images = {};   ///< pictures: what they were scaled to
  TableForm form = {};                    ///< how the source was written

  bool empty() const { return columns.empty() && !base && !images; }
};

/// What a recipe's column became on the training examples.
struct FittedColumn {
  std::string name;
  ColumnKind kind = ColumnKind::number;
  std::optional<double> fill = {};       ///< numbers: what replaces a missing value; empty: missing values are refused
  double low = 0, high = 0;              ///< numbers: range of the training values, where the scaling needs it
  std::vector<std::string> levels = {};  ///< one feature for each
  bool other = false;                    ///< whether there is a further feature, for the level "other"

  std::int64_t width() const {
    return kind == ColumnKind::number ? 1 : static_cast<std::int64_t>(levels.size()) + (other ? 1 : 0);
  }
};

/// All that a trained model has to know to read examples as it read its training examples.
struct Preprocessing {
  Recipe recipe = {};
  std::vector<FittedColumn> columns = {};  ///< fitted columns of the recipe; empty: features are what is stored
  Normalization normalization = {};
  std::vector<std::string> class_names = {};  ///< names of the classes; empty: the set did not say
  std::vector<std::string> label_names = {};  ///< names of several labels, see label_names.hpp; empty: there are none
  /// Names of stored features without a recipe; empty: the set did not say.
  std::vector<std::string> feature_names = {};
  bool bytes = false;           ///< whether features were stored as bytes
  float scale = 1, offset = 0;  ///< a value of an image that was stored as bytes is scale · byte + offset
  std::vector<std::int32_t> untrained_classes = {};  ///< classes without a training example, ascending
  /// Sets of tokens: the tokenizer, for tokenizer.hpp's make_tokenizer; null: the set did not say.
  std::shared_ptr<const TokenizerParts> tokenizer = {};
  /// Whether all is known; false: from a checkpoint of an earlier version, which kept the normalisation alone.
  bool known = false;

  /// Names of the model's features: "age", "colour=red", …, "colour=other"; empty where there is no recipe.
  std::vector<std::string> encoded_names() const;
};

/// A recipe as the JSON that files hold.
std::string to_json(const Recipe& recipe);
/// Preprocessing as the JSON that files hold; the normalisation is not in it.
std::string to_json(const Preprocessing& preprocessing);
/// Reads the JSON of a recipe. \throws DataError naming `where` for text that is no recipe
Recipe recipe_from_json(const std::string& text, const std::string& where);
/// Reads the JSON of a Preprocessing. \throws DataError naming `where` for text that is none
Preprocessing preprocessing_from_json(const std::string& text, const std::string& where);

}  // namespace unisono::data
