#include <catch2/catch.hpp>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"

using namespace unisono;

TEST_CASE("a key is read from its section", "[config]") {
  std::int64_t epochs = 0;
  parse_config({"a.toml", "[train]\nepochs = 3", {}}, [&](ConfigVisitor& v) {
    v.section({.name = "train", .meaning = "the run"},
              [&](ConfigVisitor& t) { t.field({.name = "epochs", .meaning = "passes"}, epochs); });
  });
  CHECK(epochs == 3);
}
