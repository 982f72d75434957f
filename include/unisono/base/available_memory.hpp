#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace unisono {

/// Bytes that processes of this node can still allocate: the kernel's MemAvailable, or what the limit of this process's
/// control group leaves, if that is less. Nothing where the kernel does not say.
/// \param root prefix of /proc and /sys, for tests
std::optional<std::int64_t> available_memory_bytes(const std::string& root = "");

/// The bytes behind a word such as "VmRSS:" at the start of a line of /proc/self/status; 0 if there is none.
std::int64_t process_status_bytes(const std::string& word, const std::string& root = "");

}  // namespace unisono
