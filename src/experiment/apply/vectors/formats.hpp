#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apply/new_file.hpp"
#include "unisono/tensor/allocator.hpp"

// The formats that vectors are exported in.

namespace unisono::experiment {

/// Vectors and what they are called.
struct NamedRows {
  const std::vector<std::string>& names;
  Index width = 0;
  std::function<void(Index row, MutableView vector)> read;  ///< vector [width] = the row
};

/// word2vec's text: "ROWS WIDTH", then a line each of name and numbers, blanks between.
/// \throws DataError for a name that holds a blank
void write_word2vec_text(const NamedRows& rows, NewFile& file);
/// word2vec's binary: "ROWS WIDTH\n", then name, blank, WIDTH floats, "\n". \throws as above
void write_word2vec_binary(const NamedRows& rows, NewFile& file);
/// NumPy's, version 1.0: float32 [ROWS, WIDTH], little-endian, row-major.
void write_npy(const NamedRows& rows, NewFile& file);
/// "name,x0,x1,…", then a line each.
void write_csv(const NamedRows& rows, NewFile& file);
/// A line each. \throws DataError for a name of several lines
void write_names(const std::vector<std::string>& names, NewFile& file);

}  // namespace unisono::experiment
