#include "unisono/records/config_entries.hpp"

#include <sstream>

namespace unisono::records {

std::map<std::string, std::string> config_entries(const std::string& effective) {
  std::map<std::string, std::string> found;
  std::istringstream lines(effective);
  std::string section, key;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    const auto equals = line.find(" = ");
    if (line.front() == '[' && line.back() == ']' && equals == std::string::npos) {
      section = line.substr(1, line.size() - 2) + ".";
    } else if (line.front() != ' ' && line.front() != ']' && equals != std::string::npos) {
      key = section + line.substr(0, equals);
      found[key] = line.substr(equals + 3);
    } else {
      found[key] += line;
    }
  }
  return found;
}

}  // namespace unisono::records
