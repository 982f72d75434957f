// Which changes of a config a resumed run refuses.
#include <catch2/catch.hpp>

#include "unisono/settings/config.hpp"

namespace unisono::settings {
namespace {

TEST_CASE("keys that only one version knows forbid no resuming, inside lists of layers, too", "[resuming]") {
  const std::string old = "[model]\nlayers = [{ kind = \"dense\", units = 3 }, { kind = \"relu\" }]\n";
  const std::string with_new_key =
      "[model]\nlayers = [{ kind = \"dense\", units = 3, deviation = 0.01 }, { kind = \"relu\" }]\n";
  const std::string wider = "[model]\nlayers = [{ kind = \"dense\", units = 4 }, { kind = \"relu\" }]\n";
  const std::string deeper = "[model]\nlayers = [{ kind = \"dense\", units = 3 }]\n";
  CHECK(changes_that_forbid_resuming(old, with_new_key).empty());
  CHECK(changes_that_forbid_resuming(with_new_key, old).empty());
  const std::vector<std::string> layers = {"model.layers"};
  CHECK(changes_that_forbid_resuming(old, wider) == layers);
  CHECK(changes_that_forbid_resuming(old, deeper) == layers);
}

}  // namespace
}  // namespace unisono::settings
