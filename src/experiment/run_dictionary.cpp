#include "run_dictionary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "seal.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "dictionary.h5";

}  // namespace

void keep_dictionary(const std::string& set, const std::string& file) {
  std::error_code ignored;
  if (fs::exists(file, ignored)) return;
  const Dictionary dictionary = read_dictionary(set);
  if (dictionary.empty()) return;
  const std::string aside = file + ".tmp";
  write_dictionary(aside, dictionary);
  sync_and_rename(aside, file);
}

Dictionary dictionary_of(const std::string& checkpoint, const Config& config) {
  const fs::path folder = fs::absolute(checkpoint).parent_path();
  std::error_code ignored;
  for (const fs::path& file : {folder.parent_path() / kName, folder / kName}) {
    if (fs::exists(file, ignored)) return read_dictionary(file.string());
  }
  try {
    return read_dictionary(config.data.path);
  } catch (const DataError& error) {
    throw DataError(
        fmt::format("{}: its run's {} is missing, and the set that it was trained on cannot be asked for names: {}; "
                    "put one of them back",
                    checkpoint, kName, error.what()));
  }
}

void require_same_names(const std::string& checkpoint, const Config& config, const std::string& set) {
  const Dictionary known = dictionary_of(checkpoint, config);
  for (const NameTable& there : read_dictionary(set)) {
    const NameTable* const own = find_table(known, there.table);
    if (own == nullptr || own->names.empty()) continue;
    const auto compared = static_cast<std::ptrdiff_t>(std::min(own->names.size(), there.names.size()));
    const auto [name, other] = std::mismatch(own->names.begin(), own->names.begin() + compared, there.names.begin());
    const auto row = name - own->names.begin();
    if (row == compared) continue;
    throw DataError(fmt::format(
        "{}: its {} have other numbers than those that {} was trained on: number {} is '{}' here and '{}' there; give "
        "a group of the set that it was trained on, or one that was imported with it",
        set, there.table, checkpoint, row, *other, *name));
  }
}

}  // namespace unisono
