#include <catch2/catch.hpp>
#include <string>

#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

using Catch::Matchers::Contains;

enum class Locking { none, striped };
constexpr Named<Locking> kLockings[] = {{Locking::none, "none", "nothing"}, {Locking::striped, "striped", "some rows"}};

enum class Order { any, bounded };
constexpr Named<Order> kOrders[] = {{Order::any, "any", "as it comes"}, {Order::bounded, "bounded", "not too late"}};

struct EnumSettings {
  Locking locking = Locking::none;
  Order order = Order::any, seen = Order::any;
  std::int64_t bound = 2;

  void describe(ConfigVisitor& visitor) {
    visitor.choice({.name = "locking", .meaning = "what is locked"}, locking, kLockings);
    visitor.variant({.name = "order", .meaning = "of messages"}, order, kOrders,
                    {{Order::bounded, [this](ConfigVisitor& v) {
                        seen = order;
                        v.field({.name = "bound", .meaning = "steps", .range = at_least(0)}, bound);
                      }}});
  }
  Describe visitor() {
    return [this](ConfigVisitor& v) { describe(v); };
  }
};

EnumSettings parse_enums(const std::string& text) {
  EnumSettings settings;
  parse_config({.path = "test.toml", .text = text, .overrides = {}}, settings.visitor());
  return settings;
}

}  // namespace

TEST_CASE("an option that is an enum is read and written by the names of its table", "[config]") {
  CHECK(parse_enums("").locking == Locking::none);
  EnumSettings settings = parse_enums("locking = 'striped'\norder = 'bounded'\nbound = 5");
  CHECK(settings.locking == Locking::striped);
  CHECK(settings.order == Order::bounded);
  CHECK(settings.bound == 5);
  CHECK(effective_config(settings.visitor()) == "locking = \"striped\"\norder = \"bounded\"\nbound = 5\n");
}

TEST_CASE("the fields of a value are visited when the value is known", "[config]") {
  CHECK(parse_enums("order = 'bounded'").seen == Order::bounded);
}

TEST_CASE("names that the table lacks are refused, and so are the fields of other values", "[config]") {
  CHECK_THROWS_WITH(parse_enums("locking = 'stripped'"), Contains("'striped'"));
  CHECK_THROWS_AS(parse_enums("order = 'late'"), ConfigError);
  CHECK_THROWS_WITH(parse_enums("bound = 5"), Contains("order 'any'"));
}

TEST_CASE("the reference lists an enum's names, and leaves its value as it is", "[config]") {
  EnumSettings settings;
  const std::string text = config_reference(settings.visitor(), ReferenceFormat::text);
  CHECK_THAT(text, Contains("locking = \"none\"") && Contains("striped") && Contains("some rows"));
  CHECK_THAT(text, Contains("only for bounded"));
  CHECK(settings.order == Order::any);
}

TEST_CASE("a value's name is that of its table", "[config]") {
  STATIC_REQUIRE(name_of(Locking::striped, kLockings) == "striped");
  CHECK(name_of(static_cast<Locking>(7), kLockings).empty());
}

}  // namespace unisono
