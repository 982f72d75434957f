#include "unisono/search/space.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "search_helpers.hpp"

namespace unisono::search {
namespace {

/// What is wrong with a space, of configs in which x is at most 1, y a whole number, and z is 2 only beside mode = "b".
std::string problem_with(const std::string& text) {
  const Space space = space_of(text);
  return complaint_of([&] {
    require_values(space, [](const std::vector<Assignment>& values) {
      bool b = false;
      for (const auto& [key, value] : values)
        b = b || (key == "mode" && value == ConfigValue{.value = std::string("b")});
      for (const auto& [key, value] : values) {
        if (key == "x" && *value.number() > 1) throw ConfigError("x is above 1");
        if (key == "y" && !std::holds_alternative<std::int64_t>(value.value)) throw ConfigError("y is no whole number");
        if (key == "z" && *value.number() == 2 && !b) throw ConfigError("z is 2 only beside b");
      }
    });
  });
}

TEST_CASE("a value that no trial can have is refused, one that some can have is not", "[search]") {
  CHECK(problem_with("x = { linear = [0, 1] }\ny = [1, 2]\n") == "");
  CHECK(problem_with("x = { linear = [0, 2] }\n") == "[search.space] 'x' = 2.0: no trial can have it: x is above 1");
  CHECK(problem_with("y = [1, 2.5]\n") == "[search.space] 'y' = 2.5: no trial can have it: y is no whole number");
  CHECK(problem_with("z = [1, 2]\n") == "[search.space] 'z' = 2: no trial can have it: z is 2 only beside b");
  CHECK(problem_with("z = [2]\nmode = [\"a\", \"b\"]\n") ==
        "[search.space] 'mode' = \"a\": no trial can have it: z is 2 only beside b");
  CHECK(problem_with("z = [1, 2]\nmode = [\"a\", \"c\", \"d\", \"e\", \"f\", \"b\"]\n") == "");
}

TEST_CASE("keys that a trial cannot have for itself are refused, also within tables", "[search]") {
  const auto problem = [](const std::string& text, bool in_steps = false) {
    return complaint_of([&] { require_free_keys(space_of(text), in_steps); });
  };
  CHECK(problem("seed = [1, 2]\n").starts_with("[search.space] 'seed' cannot vary: "));
  CHECK(problem("train = [{ epochs = 1 }, { threads = 2 }]\n")
            .starts_with("[search.space] 'train.threads' cannot vary: "));
  CHECK(problem("train.threads = [1]\n").starts_with("[search.space] 'train.threads' cannot vary: "));
  CHECK(problem("\"search.trials\" = [1, 2]\n").starts_with("[search.space] 'search' cannot vary: "));
  CHECK(problem("\"train.epochs\" = [1, 2]\n") == "");
  CHECK(problem("\"train.epochs\" = [1, 2]\n", true).starts_with("[search.space] 'train.epochs' cannot vary: "));
  CHECK(problem("\"searches\" = [1, 2]\n") == "");
}

}  // namespace
}  // namespace unisono::search
