#pragma once

#include <vector>

#include "pipeline/program.hpp"

namespace unisono::parallel {

/// In which order a stage starts its messages, where messages move one after the other on each stage, and a send may
/// wait for its receive. All messages of a program have one common order, by the simulated ends of the passes that make
/// them, and each stage keeps to it with those that it sends and receives. So the first message that has not moved is
/// always the next one on both of its stages; and since its pass ends before that of any later message, neither stage
/// waits for a later one before. No program can deadlock then.
///
/// A receive may be started before the pass that needs it: the messages of different pieces, or directions, come in the
/// order of their sends.
struct MessageOrder {
  std::vector<std::size_t> receives;  ///< the stage's operations that need a message, in the order of these
  std::vector<std::size_t> before;    ///< [operations] how many of these are started before each operation
};

/// \pre as execution_order
MessageOrder message_order(const Program& program, int stage);

}  // namespace unisono::parallel
