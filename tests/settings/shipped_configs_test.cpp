#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "source_folder.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::settings {
namespace {

/// All TOML files of a folder of the project.
std::vector<std::string> configs_in(const std::string& folder) {
  const auto root = std::filesystem::path(test::source_folder());
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(root / folder)) {
    if (entry.path().extension() == ".toml") paths.push_back(entry.path().string());
  }
  return paths;
}

TEST_CASE("every config that is shipped can be read, and named as its file is", "[config]") {
  const auto paths = configs_in("configs");
  REQUIRE(paths.size() >= 6);
  for (const std::string& path : paths) {
    INFO(path);
    const Config config = parse_config(read_config(path));
    CHECK(config.name == std::filesystem::path(path).stem().string());
    CHECK(config.run_folder() == "runs/" + config.name);
  }
}

TEST_CASE("the effective config of every config that is shipped describes the same experiment", "[config]") {
  for (const std::string& path : configs_in("configs")) {
    INFO(path);
    const std::string effective = effective_config(parse_config(read_config(path)));
    CHECK(effective_config(parse_config({"config.toml", effective, {}})) == effective);
  }
}

}  // namespace
}  // namespace unisono::settings
