#include "config_suggest.hpp"

#include <algorithm>

#include "config_detail.hpp"
#include "config_reference.hpp"

namespace unisono::detail {
namespace {

constexpr std::size_t kMostHelpful = 4;

/// "[train]" as "train", "[[model.layers]]" as "model.layers.N".
std::string path_of(const ReferenceTable& table) {
  const std::size_t brackets = table.title.starts_with("[[") ? 2 : table.title.empty() ? 0 : 1;
  const std::string path = table.title.substr(brackets, table.title.size() - 2 * brackets);
  return brackets == 2 ? path + ".N" : path;
}

void collect(const ReferenceTable& table, std::vector<std::string>& paths) {
  const std::string path = path_of(table);
  if (!path.empty()) paths.push_back(path);
  for (const ReferenceKey& key : table.keys) paths.push_back(join_path(path, key.name));
  for (const ReferenceTable& inner : table.tables) collect(inner, paths);
}

std::vector<std::string> all_paths(const Describe& describe) {
  std::vector<std::string> paths;
  collect(collect_reference(describe), paths);
  return paths;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::vector<std::string> ending_in(std::string_view name, const std::vector<std::string>& paths) {
  std::vector<std::string> found;
  for (const std::string& path : paths) {
    if (last_part(path) == name && std::find(found.begin(), found.end(), path) == found.end()) found.push_back(path);
  }
  if (found.size() > kMostHelpful) found.clear();
  return found;
}

}  // namespace

std::vector<std::string> keys_called(std::string_view name, const Describe& describe) {
  return ending_in(name, all_paths(describe));
}

std::vector<std::string> keys_like(std::string_view name, const Describe& describe) {
  const std::vector<std::string> paths = all_paths(describe);
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(last_part(path));
  const std::string nearest = nearest_name(name, names);
  return nearest.empty() ? std::vector<std::string>() : ending_in(nearest, paths);
}

}  // namespace unisono::detail
