#include <cstring>

#include "collectives.hpp"
#include "expect.hpp"
#include "unisono/comm/process_grid.hpp"

namespace unisono::test {
namespace {

using comm::Communicator;
using comm::GridPlace;
using comm::GridShape;
using comm::ProcessGrid;

/// All shapes of so many ranks.
std::vector<GridShape> shapes_of(int ranks) {
  std::vector<GridShape> shapes;
  for (int data = 1; data <= ranks; ++data) {
    for (int stages = 1; data * stages <= ranks; ++stages) {
      if (ranks % (data * stages) == 0) shapes.push_back({data, stages, ranks / (data * stages)});
    }
  }
  return shapes;
}

/// The numbers in `all` of a group's ranks, in the order of the group.
std::vector<int> members(Communicator& group, Communicator& all) {
  const int own = all.rank();
  std::vector<int> ranks;
  for (const auto& bytes : group.all_gather_bytes(std::as_bytes(std::span(&own, 1)))) {
    EXPECT(bytes.size() == sizeof(int));
    std::memcpy(&ranks.emplace_back(), bytes.data(), sizeof(int));
  }
  return ranks;
}

/// A group along an axis: the ranks that differ from this one's place along it alone.
void expect_line(Communicator& group, const ProcessGrid& grid, int GridPlace::*axis, int extent) {
  EXPECT(group.size() == extent);
  EXPECT(group.rank() == grid.place().*axis);
  const std::vector<int> ranks = members(group, grid.all());
  for (int i = 0; i < extent; ++i) {
    GridPlace place = grid.place();
    place.*axis = i;
    EXPECT(ranks[static_cast<std::size_t>(i)] == rank_of(grid.shape(), place));
  }
}

void expect_groups(Communicator& all, const GridShape& shape) {
  const ProcessGrid grid(all, shape);
  EXPECT(&grid.all() == &all);
  EXPECT(rank_of(shape, grid.place()) == all.rank());
  expect_line(grid.data(), grid, &GridPlace::data, shape.data);
  expect_line(grid.pipeline(), grid, &GridPlace::stage, shape.stages);
  expect_line(grid.tensor(), grid, &GridPlace::tensor, shape.tensor);
  for (const auto& [group, extent] : {std::pair{&grid.data(), shape.data}, std::pair{&grid.pipeline(), shape.stages},
                                      std::pair{&grid.tensor(), shape.tensor}}) {
    EXPECT((group == &all) == (extent == all.size()));
  }
}

}  // namespace

void groups_of_every_shape(Communicator& communicator) {
  for (const GridShape& shape : shapes_of(communicator.size())) expect_groups(communicator, shape);
}

/// The others leave the grid as usual; none waits for the one that threw.
void what_one_rank_throws_ends_the_groups(Communicator& communicator) {
  struct Thrown {};
  for (const GridShape& shape : shapes_of(communicator.size())) {
    for (int thrower = 0; thrower < communicator.size(); ++thrower) {
      try {
        const ProcessGrid grid(communicator, shape);
        Buffer shared(100, grid.data().shared_allocator());
        if (communicator.rank() == thrower) throw Thrown{};
      } catch (const Thrown&) {
      }
    }
    expect_groups(communicator, shape);
  }
}

}  // namespace unisono::test
