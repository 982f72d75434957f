#pragma once

#include <stdexcept>
#include <string>

/// For bodies that run as ranks in threads, where Catch2's assertions are not safe: throws where the condition is
/// false, and so ends all ranks.
#define EXPECT(...) ::unisono::expect(static_cast<bool>(__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

namespace unisono {

struct ExpectationFailed : std::logic_error {
  using std::logic_error::logic_error;
};

inline void expect(bool holds, const char* condition, const char* file, int line) {
  if (holds) return;
  throw ExpectationFailed(std::string(file) + ":" + std::to_string(line) + ": expected: " + condition);
}

}  // namespace unisono
