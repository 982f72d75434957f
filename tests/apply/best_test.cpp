#include "model/best.hpp"

#include <catch2/catch.hpp>

namespace unisono::apply {
namespace {

using List = std::vector<Scored>;

TEST_CASE("the best are kept, the largest first, and of equals the lower rows", "[best]") {
  Best best(3);
  const std::vector<double> scores = {1, 5, 2, 5, 4, 5};
  for (std::size_t row = 0; row < scores.size(); ++row) best.offer({static_cast<Index>(row), scores[row]});
  CHECK(best.take() == List{{1, 5}, {3, 5}, {5, 5}});
  best.offer({7, -1});
  CHECK(best.take() == List{{7, -1}});  // it was empty again, and there are fewer than three
  CHECK(best.take().empty());
}

}  // namespace
}  // namespace unisono::apply
