#pragma once

#include <string>

#include "unisono/apply/trained_model.hpp"
#include "unisono/data/dictionary.hpp"

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

}  // namespace unisono::apply
