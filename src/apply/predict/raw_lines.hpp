#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "unisono/data/import.hpp"
#include "unisono/session/stored_checkpoint.hpp"

namespace unisono::apply {

inline constexpr std::string_view kStandardInput = "standard input";  ///< its name in messages

/// Lines of examples for a trained model. What a line is depends on what the model was trained on: a row of a table,
/// below a first line of names where the training table had one; a line of LIBSVM; the path of a picture; or the values
/// of an example, separated by commas or blanks.
class RawLines {
 public:
  /// \throws ConfigError for a model of anything else
  explicit RawLines(const session::StoredCheckpoint& checkpoint);

  bool has_names() const { return has_names_; }  ///< whether the first line of all holds the names of the columns
  /// \throws DataError for names that do not fit the model
  void set_names(const std::string& line);
  /// Whether a line is an example: empty lines are not, nor are comments of LIBSVM.
  bool is_example(const std::string& line) const;

  /// Whether `features` makes what the model sees of examples; else `write` makes a file for data::import_raw.
  bool in_memory() const { return form_ == Form::values || (form_ == Form::table && text_column().empty()); }
  /// [examples, C, H, W] \throws DataError
  std::vector<float> features(const std::vector<std::string>& examples) const;
  /// Writes the file, or a folder of pictures. \throws DataError, OutputError
  void write(const std::vector<std::string>& examples, const std::string& path) const;

 private:
  enum class Form { table, libsvm, pictures, values };
  static Form form_of(const session::StoredCheckpoint& checkpoint);
  data::RawForm form() const;
  const std::string& text_column() const { return checkpoint_.header.preprocessing.recipe.text; }
  std::string file_of(const std::vector<std::string>& examples) const;
  void link_pictures(const std::vector<std::string>& paths, const std::string& folder) const;
  void add_values(const std::string& example, std::vector<float>& values) const;

  const session::StoredCheckpoint& checkpoint_;
  Form form_;
  bool has_names_;
  std::string names_;
};

}  // namespace unisono::apply
