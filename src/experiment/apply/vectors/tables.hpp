#pragma once

#include <string>

#include "apply/trained_model.hpp"
#include "unisono/data/dictionary.hpp"

namespace unisono::experiment {

/// The model's table of this name; empty: the only one. \throws ConfigError where there is none, or more than one
models::VectorTable choose_table(const TrainedModel& model, const std::string& name);

/// What its rows are called: their numbers where nobody named them. Reads a file: for rank 0. \throws DataError
data::NameTable names_of(const TrainedModel& model, const models::VectorTable& table);

/// The row of a name. \throws DataError with the nearest one
Index row_of(const data::NameTable& names, const std::string& name, const std::string& model);

/// vector = a row of the table: the sum of its parts. \param vector [width]
void read_row(const models::VectorTable& table, View parameters, Index row, MutableView vector);

}  // namespace unisono::experiment
