#include "control_group.hpp"

#include <fstream>
#include <optional>
#include <sstream>

namespace unisono {
namespace {

namespace fs = std::filesystem;

/// Whether `wanted` is one of the names in "cpu,cpuacct"; version 2 has the empty list, which is "".
bool names(const std::string& controllers, const std::string& wanted) {
  if (controllers.empty() || wanted.empty()) return controllers == wanted;
  return ("," + controllers + ",").find("," + wanted + ",") != std::string::npos;
}

/// The path below the controller's hierarchy: "/jobs/one" of the line "4:cpu,cpuacct:/jobs/one".
std::optional<fs::path> path_in_hierarchy(const std::string& memberships, const std::string& controller) {
  std::istringstream lines(memberships);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (names(line.substr(first + 1, second - first - 1), controller)) return line.substr(second + 1);
  }
  return {};
}

}  // namespace

std::vector<fs::path> control_groups(const std::string& memberships, const std::string& controller,
                                     const fs::path& root) {
  const auto path = path_in_hierarchy(memberships, controller);
  if (!path) return {};
  const fs::path hierarchy = controller.empty() ? root : root / controller;
  std::vector<fs::path> folders;
  for (fs::path group = path->relative_path(); !group.empty(); group = group.parent_path()) {
    folders.push_back(hierarchy / group);
  }
  folders.push_back(hierarchy);
  return folders;
}

std::string text_of_file(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace unisono
