#include <catch2/catch.hpp>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/comm/mpi.hpp"

using namespace unisono;

namespace {

CommunicationSettings parse(const std::string& text) {
  CommunicationSettings settings;
  parse_config({"test.toml", text, {}}, [&](ConfigVisitor& visitor) { settings.describe(visitor); });
  return settings;
}

}  // namespace

TEST_CASE("communication settings are read", "[settings]") {
  const auto settings = parse("timeout_seconds = 12.5\nbucket_bytes = 4096\nshared_memory = false\n");
  CHECK(settings.timeout_seconds == 12.5);
  CHECK(settings.bucket_bytes == 4096);
  CHECK_FALSE(settings.shared_memory);
}

TEST_CASE("communication settings out of range are refused", "[settings]") {
  CHECK_THROWS_AS(parse("timeout_seconds = 0\n"), ConfigError);
  CHECK_THROWS_AS(parse("bucket_bytes = -1\n"), ConfigError);
  CHECK_THROWS_AS(parse("ranks_per_node = 2\n"), ConfigError);  // for tests alone
}
