// The config reader on any bytes: it gives settings or a ConfigError, and settings survive being written and read
// again. The first byte 0 ends the text; what follows are overrides, a byte 0 between each.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "config_settings.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

std::vector<std::string> split_at_zeros(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> parts(1);
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] == 0) {
      parts.emplace_back();
    } else {
      parts.back() += static_cast<char>(data[i]);
    }
  }
  return parts;
}

void check(const ConfigText& config) {
  TestSettings settings;
  try {
    parse_config(config, settings.visitor());
  } catch (const ConfigError& error) {
    if (std::string(error.what()).find_first_of(":") == std::string::npos) std::abort();  // says no place
    return;
  }
  const std::string written = effective_config(settings.visitor());
  TestSettings again;
  parse_config({"written.toml", written, {}}, again.visitor());  // a ConfigError here is a finding
  if (effective_config(again.visitor()) != written) std::abort();
}

}  // namespace
}  // namespace unisono

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> parts = unisono::split_at_zeros(data, size);
  const std::string text = parts.front();
  parts.erase(parts.begin());
  unisono::check({"fuzzed.toml", text, std::move(parts)});
  return 0;
}
