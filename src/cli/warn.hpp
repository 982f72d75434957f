#pragma once

#include "unisono/base/log.hpp"
#include "unisono/comm/mpi.hpp"

namespace unisono::cli {

/// Sends warnings of the communication layer to the log.
inline comm::Warn warn_to(Log& log) {
  return [&log](const std::string& text) { log.warning(text); };
}

}  // namespace unisono::cli
