#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/new_file.hpp"
#include "unisono/tensor/allocator.hpp"

// The formats that vectors are exported in.

namespace unisono::apply {

/// Named vectors to be exported.
struct NamedRows {
  const std::vector<std::string>& names;
  Index width = 0;
  std::function<void(Index row, MutableView vector)> read;  ///< writes a row to `vector` [width]
};

/// word2vec's text format: a line "ROWS WIDTH", then a line per vector: name and numbers, separated by blanks.
/// \throws DataError for a name that holds a blank
void write_word2vec_text(const NamedRows& rows, NewFile& file);
/// word2vec's binary format: "ROWS WIDTH\n", then for each vector name, blank, WIDTH floats, "\n". \throws as above
void write_word2vec_binary(const NamedRows& rows, NewFile& file);
/// NumPy's .npy, version 1.0: float32 [ROWS, WIDTH], little-endian, row-major.
void write_npy(const NamedRows& rows, NewFile& file);
/// CSV: "name,x0,x1,…", then a line per vector.
void write_csv(const NamedRows& rows, NewFile& file);
/// The names, one per line. \throws DataError for a name that contains a line break
void write_names(const std::vector<std::string>& names, NewFile& file);

}  // namespace unisono::apply
