#pragma once

#include <cstdint>

namespace unisono::strategies {

// The protocol of a pass over the training set, in notes of 32 bytes:
//
//     worker                                coordinator (a thread of rank 0)
//       finished  portion, seconds     →
//                       take  portions ←       compute these, too
//                      leave  portions ←       do not begin these; stop where one is in progress
//                       over  portions ←       the pass is complete; the next one begins with these
//       gone                           →       no more notes of this pass

struct Note {
  enum class Kind : std::int32_t { finished, gone, take, leave, over };
  Kind kind = Kind::gone;
  std::int32_t first = 0, last = 0;  ///< portions [first, last)
  std::int32_t padding = 0;
  std::int64_t pass = 0;
  double seconds = 0;  ///< finished: that the portion took
};

inline constexpr int kToCoordinator = 1, kToWorker = 2;  ///< tags

}  // namespace unisono::strategies
