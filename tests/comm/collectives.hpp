#pragma once

#include <vector>

#include "unisono/comm/communicator.hpp"

namespace unisono::test {

/// A promise that every room keeps on any number of ranks. `check` is collective and throws where it is broken.
struct Promise {
  const char* name;
  void (*check)(comm::Communicator&);
};

const std::vector<Promise>& promises();

}  // namespace unisono::test
