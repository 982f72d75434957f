#include "unisono/session/run_dictionary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/base/raw_file.hpp"

namespace unisono::session {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "dictionary.h5";

/// Hash of all names in their order; 0 if there are none.
std::uint64_t hash_of(const data::Dictionary& dictionary) {
  std::uint64_t hash = 0;
  for (const data::NameTable& table : dictionary) {
    hash = hash_bytes(table.table, hash);
    for (const std::string& name : table.names) hash = hash_bytes(name, hash + 1);
  }
  return hash;
}

}  // namespace

std::uint64_t keep_dictionary(const std::string& set, const std::string& file) {
  std::error_code ignored;
  if (fs::exists(file, ignored)) return hash_of(data::read_dictionary(file));
  const data::Dictionary dictionary = data::read_dictionary(set);
  if (dictionary.empty()) return 0;
  const std::string aside = file + ".tmp";
  try {
    data::write_dictionary(aside, dictionary);
  } catch (...) {
    fs::remove(aside, ignored);
    throw;
  }
  sync_and_rename(aside, file);
  return hash_of(dictionary);
}

std::uint64_t names_of(const std::string& set) { return hash_of(data::read_dictionary(set)); }

data::Dictionary dictionary_of(const StoredCheckpoint& checkpoint, const settings::Config& config) {
  const std::uint64_t names = checkpoint.header.names;
  const auto is_its = [names](const data::Dictionary& dictionary) {
    return names == 0 || hash_of(dictionary) == names;
  };
  const fs::path folder = fs::absolute(checkpoint.path).parent_path();
  std::error_code ignored;
  for (const fs::path& file : {folder.parent_path() / kName, folder / kName}) {
    if (!fs::exists(file, ignored)) continue;
    data::Dictionary dictionary = data::read_dictionary(file.string());
    if (is_its(dictionary)) return dictionary;
  }
  const auto lacks = [&](const std::string& why) -> DataError {
    return DataError(
        fmt::format("{}: its run's {} is missing or belongs to another run, and the names cannot be read from the "
                    "training set: {}; restore one of them",
                    checkpoint.path, kName, why));
  };
  try {
    data::Dictionary dictionary = data::read_dictionary(config.data.path);
    if (is_its(dictionary)) return dictionary;
  } catch (const DataError& error) {
    throw lacks(error.what());
  }
  throw lacks(config.data.path + " has different names now");
}

void require_same_names(const StoredCheckpoint& checkpoint, const settings::Config& config, const std::string& set) {
  const data::Dictionary known = dictionary_of(checkpoint, config);
  const bool by_name = !checkpoint.header.preprocessing.class_names.empty();  // matched when the set is read
  for (const data::NameTable& there : data::read_dictionary(set)) {
    if (there.table == "classes" && by_name) continue;
    const data::NameTable* const own = data::find_table(known, there.table);
    if (own == nullptr || own->names.empty()) continue;
    const auto compared = static_cast<std::ptrdiff_t>(std::min(own->names.size(), there.names.size()));
    const auto [name, other] = std::mismatch(own->names.begin(), own->names.begin() + compared, there.names.begin());
    const auto row = name - own->names.begin();
    if (row == compared) continue;
    throw DataError(
        fmt::format("{}: its {} are numbered differently from those that {} was trained on: number {} is '{}' instead "
                    "of '{}'; use the training set, or a set that was imported together with it",
                    set, there.table, checkpoint.path, row, *other, *name));
  }
}

}  // namespace unisono::session
