#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace unisono::data {

/// What the things are called that a set has numbers of: names[i] is the name of number i.
struct NameTable {
  std::string table;  ///< words, users, items, classes
  std::vector<std::string> names = {};
  std::vector<std::int64_t> counts = {};  ///< how often each occurs; empty: nobody says
};

/// `/dictionary` of a set, and its classes, without what it does not have.
using Dictionary = std::vector<NameTable>;

/// \throws DataError
Dictionary read_dictionary(const std::string& path);
/// Makes a file that `read_dictionary` reads. \throws OutputError
void write_dictionary(const std::string& path, const Dictionary& dictionary);

/// Null where there is no such table.
const NameTable* find_table(const Dictionary& dictionary, const std::string& table);

/// The letters of all alphabets made small; what is no UTF-8 stays as it is.
/// \throws DataError where the system does not know Unicode's letters
std::vector<std::string> lowercase(std::vector<std::string> words);

}  // namespace unisono::data
