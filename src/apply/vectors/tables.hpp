#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/best.hpp"
#include "unisono/apply/trained_model.hpp"
#include "unisono/data/dictionary.hpp"
#include "unisono/models/model.hpp"

namespace unisono::apply {

/// The model's table of this name or, if the name is empty, its only table. \throws ConfigError if there is none, or
/// more than one
models::VectorTable choose_table(const TrainedModel& model, const std::string& name);

/// The names of a table's rows; their numbers if they have no names. Reads a file: call it on rank 0. \throws DataError
data::NameTable names_of(const TrainedModel& model, const models::VectorTable& table);

/// The row with a name. \throws DataError for an unknown name, with the most similar one
Index row_of(const data::NameTable& names, const std::string& name, const std::string& model);

/// Writes a row of the table (the sum of its components) to `vector`. \param vector [width]
void read_row(const models::VectorTable& table, View parameters, Index row, MutableView vector);

/// A model's words, for finding rows by name.
class Vocabulary {
 public:
  explicit Vocabulary(data::NameTable names);
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;

  std::size_t size() const { return names_.names.size(); }
  /// Whether no word has a capital letter; `find` then ignores case.
  bool is_lower_case() const { return lower_case_; }
  /// The row of each word, or −1 if it is unknown.
  std::vector<std::int32_t> find(std::vector<std::string> words) const;
  /// The rows of the `count` most frequent words, the most frequent first (all, if there are fewer). Without counts:
  /// the first rows.
  std::vector<std::int32_t> most_frequent(std::int64_t count) const;

 private:
  data::NameTable names_;
  bool lower_case_;
  std::unordered_map<std::string_view, std::int32_t> rows_;
};

/// For each row in `asked`, the `top` other rows with the largest cosines, the largest first; of equals the lower row.
/// A zero vector is never a neighbour.
std::vector<std::vector<Scored>> nearest(const models::VectorTable& table, View parameters,
                                         const std::vector<Index>& asked, std::size_t top);

/// The cosine of two vectors; 0 if one of them is zero.
double cosine(View a, View b);

}  // namespace unisono::apply
