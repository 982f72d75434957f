#pragma once

#include <cstdint>
#include <string>

namespace unisono::data {

/// Bytes that processes of this node can still allocate: the kernel's MemAvailable, or what the limit of this process's
/// control group leaves, if that is less.
/// \param root prefix of /proc and /sys, for tests
std::int64_t available_memory_bytes(const std::string& root = "");

}  // namespace unisono::data
