#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unisono::data {

/// The names of the things that a set refers to by number: names[i] is the name of number i.
struct NameTable {
  std::string table;  ///< words, users, items, classes
  std::vector<std::string> names = {};
  std::vector<std::int64_t> counts = {};  ///< how often the thing of each name occurs; empty: not known
};

/// The tables of `/dictionary` in a set's file, and its class names. Tables that the set lacks are left out.
using Dictionary = std::vector<NameTable>;

/// Reads the dictionary of a set's file. \param external_files whether the file may refer to values in other files
/// \throws DataError
Dictionary read_dictionary(const std::string& path, bool external_files = false);
/// Makes a file that `read_dictionary` reads. \throws OutputError
void write_dictionary(const std::string& path, const Dictionary& dictionary);

/// The table of a dictionary that has this name; null: there is none.
const NameTable* find_table(const Dictionary& dictionary, const std::string& table);

/// Words in lower case, in all alphabets; words that are not valid UTF-8 are not changed.
/// \throws DataError if the system has no UTF-8 locale
std::vector<std::string> lowercase(std::vector<std::string> words);

}  // namespace unisono::data
