#pragma once

#include <string>

#include "unisono/session/model_parts.hpp"

namespace unisono::session {

/// How many threads of a rank train on one model, where the config leaves that open.
struct ThreadChoice {
  int threads = 0;         ///< 0: nothing was left open, or ranks with different numbers of cores use all of them
  std::string found = {};  ///< for the log
};

/// Whether the config leaves the number of threads to choose_threads, for a set of this kind.
bool leaves_threads_open(const settings::Config& config, data::SetKind set);

/// Where strategy.threads = 0, and the threads of a rank train one linear model or factorization: trains a copy of the
/// model on a few thousand of the examples, with one thread and with as many as the rank may use, several times in
/// turn. More than one are chosen only where they are clearly faster. The run that follows is that of a config that
/// names the number. All ranks choose the same. Collective.
ThreadChoice choose_threads(const ModelPlace& where, const settings::Config& config, data::Dataset& data);

}  // namespace unisono::session
