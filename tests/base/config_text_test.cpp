#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

using Catch::Matchers::StartsWith;

std::string reading_complaint(const std::string& path) {
  try {
    read_config(path);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a config is read as it stands", "[config]") {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "unisono_config_text_test.toml";
  for (const std::string text : {"", "a = 1\r\n# ünï\n"}) {
    std::ofstream(path, std::ios::binary) << text;
    const ConfigText config = read_config(path.string(), {"b=2"});
    CHECK(config.path == path.string());
    CHECK(config.text == text);
    CHECK(config.overrides == std::vector<std::string>{"b=2"});
  }
  std::filesystem::remove(path);
}

TEST_CASE("a config that cannot be read is refused by name and reason", "[config]") {
  CHECK(reading_complaint("no/such.toml") == "no/such.toml: cannot be read: No such file or directory");
  CHECK(reading_complaint("/") == "/: is a folder, not a config file");

  const std::filesystem::path run = std::filesystem::temp_directory_path() / "unisono_config_text_test";
  std::filesystem::create_directory(run);
  std::ofstream(run / "config.toml") << "a = 1\n";
  CHECK(reading_complaint(run.string()) ==
        run.string() + ": is a folder, not a config file; name the file " + run.string() + "/config.toml");
  std::filesystem::remove_all(run);
}

TEST_CASE("the nearest name is the one with the fewest mistakes, if they are few", "[config]") {
  const std::vector<std::string> known = {"learning_rate", "momentum", "kind", "nesterov"};
  CHECK(nearest_name("learning_rte", known) == "learning_rate");
  CHECK(nearest_name("learningrate", known) == "learning_rate");
  CHECK(nearest_name("learning_rates", known) == "learning_rate");
  CHECK(nearest_name("momentmu", known) == "momentum");  // a swap is one mistake
  CHECK(nearest_name("momantom", known) == "momentum");  // two of eight letters
  CHECK(nearest_name("mamantam", known) == "");          // three
  CHECK(nearest_name("kid", known) == "kind");
  CHECK(nearest_name("period", known) == "");
  CHECK(nearest_name("k", {"p"}) == "");  // nothing in common
  CHECK(nearest_name("", known) == "");
  CHECK(nearest_name(std::string(1'000'000, 'x'), known) == "");
}

}  // namespace
}  // namespace unisono
