#include "recipe/recipe_file.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"

namespace unisono::data {
namespace {

constexpr const char* kRecipe = "recipe";
constexpr std::uint64_t kMostBytes = 256 << 20;

}  // namespace

Recipe read_recipe(const hdf5::File& file) {
  if (!file.exists(kRecipe)) return {};
  const std::string where = fmt::format("{}: /{}", file.path(), kRecipe);
  const hdf5::DatasetShape shape = file.is_dataset(kRecipe) ? file.shape(kRecipe) : hdf5::DatasetShape{};
  if (shape.type != hdf5::Type::uint8 || shape.extent.size() != 1 || shape.rows() > kMostBytes || !shape.complete) {
    throw DataError(where + " is not a valid recipe; import the set again");
  }
  const auto bytes = file.read<std::uint8_t>(kRecipe);
  return recipe_from_json(std::string(bytes.begin(), bytes.end()), where);
}

void write_recipe(hdf5::File& file, const Recipe& recipe) {
  const std::string text = to_json(recipe);
  file.write(kRecipe, std::vector<std::uint8_t>(text.begin(), text.end()));
}

}  // namespace unisono::data
