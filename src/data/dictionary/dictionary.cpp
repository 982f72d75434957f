#include "unisono/data/dictionary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "import/rows.hpp"
#include "set/external.hpp"
#include "set/form.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {
namespace {

constexpr std::array kTables = {"words", "users", "items", "classes"};
constexpr const char* kCounts = "dictionary/counts";  // of words
constexpr const char* kClassNames = "class_names";    // the attribute with a set's class names

std::string path_of(const std::string& table) { return "dictionary/" + table; }

NameTable read_table(const hdf5::File& file, const std::string& table) {
  NameTable read{.table = table, .names = file.read_strings(path_of(table))};
  if (table != "words" || !file.exists(kCounts)) return read;
  read.counts = file.read<std::int64_t>(kCounts);
  if (read.counts.size() == read.names.size()) return read;
  throw DataError(fmt::format("{}: /{} holds {}, but the dictionary has {}; make the file again", file.path(), kCounts,
                              count_of(std::ssize(read.counts), "value"), count_of(std::ssize(read.names), "word")));
}

}  // namespace

Dictionary read_dictionary(const std::string& path, bool external_files) {
  check_seal(path);
  const hdf5::File file = open_set_file(path, external_files);
  Dictionary dictionary;
  for (const std::string table : kTables) {
    if (file.exists(path_of(table))) dictionary.push_back(read_table(file, table));
  }
  if (file.has_attribute("", kClassNames)) {
    dictionary.push_back({.table = "classes", .names = file.read_attribute<std::vector<std::string>>("", kClassNames)});
  }
  return dictionary;
}

void write_dictionary(const std::string& path, const Dictionary& dictionary) {
  {
    hdf5::File file(path, hdf5::File::Mode::create);
    file.create_group("dictionary");
    for (const NameTable& table : dictionary) {
      file.write_names(path_of(table.table), table.names);
      if (!table.counts.empty()) file.write(kCounts, table.counts);
    }
    file.flush();
  }
  seal_set(path);
}

const NameTable* find_table(const Dictionary& dictionary, const std::string& table) {
  const auto found = std::find_if(dictionary.begin(), dictionary.end(),
                                  [&](const NameTable& candidate) { return candidate.table == table; });
  return found == dictionary.end() ? nullptr : &*found;
}

std::vector<std::string> lowercase(std::vector<std::string> words) {
  Lowercase lower;
  for (std::string& word : words) {
    if (find_invalid_utf8(word) == std::string::npos) word = lower(word);
  }
  return words;
}

}  // namespace unisono::data
