#pragma once

#include "unisono/session/model_parts.hpp"
#include "unisono/session/settled.hpp"

namespace unisono::session {

/// Whether the config leaves the number of threads to choose_threads, for a set of this kind.
bool leaves_threads_open(const settings::Config& config, data::SetKind set);

/// Where strategy.threads = 0, and the threads of a rank train one linear model or factorization: trains a copy of the
/// model on a few thousand of the examples, with one thread and with as many as the rank may use, several times in
/// turn. More than one are chosen only where they are clearly faster. The run that follows is that of a config that
/// names the number; where ranks with different numbers of cores use all of them, it stays 0. All ranks choose the
/// same. Collective.
Settled choose_threads(const ModelPlace& where, Settled asked, data::Dataset& data);

}  // namespace unisono::session
