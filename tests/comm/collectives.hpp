#pragma once

#include <vector>

#include "unisono/comm/communicator.hpp"

namespace unisono::test {

/// A promise that every communicator keeps on any number of ranks. `check` is collective and throws where it is broken.
struct Promise {
  const char* name;
  void (*check)(comm::Communicator&);
};

const std::vector<Promise>& promises();

// Of process grids on any ranks; see process_grids.cpp.
void groups_of_every_shape(comm::Communicator& communicator);
void what_one_rank_throws_ends_the_groups(comm::Communicator& communicator);

}  // namespace unisono::test
