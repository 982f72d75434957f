#pragma once

namespace unisono::parallel {

/// How many vectors of g's size a replica needs in addition to g for sums by a tree of so many leaves
/// (communication.reduction = "reproducible").
/// \param leaves of a step; 0: sums are fast, and need none
int vectors_of_reproducible_sum(int leaves, int replica, int replicas);

}  // namespace unisono::parallel
