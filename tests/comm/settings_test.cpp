#include <catch2/catch.hpp>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/comm/mpi.hpp"

using namespace unisono::comm;

namespace {

unisono::comm::CommunicationSettings parse(const std::string& text) {
  unisono::comm::CommunicationSettings settings;
  unisono::parse_config({"test.toml", text, {}}, [&](unisono::ConfigVisitor& visitor) { settings.describe(visitor); });
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
  CHECK_THROWS_AS(parse("timeout_seconds = 0\n"), unisono::ConfigError);
  CHECK_THROWS_AS(parse("bucket_bytes = -1\n"), unisono::ConfigError);
  CHECK_THROWS_AS(parse("ranks_per_node = 2\n"), unisono::ConfigError);  // for tests alone
}
