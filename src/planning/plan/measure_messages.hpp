#pragma once

#include <functional>

#include "plan/measure.hpp"
#include "plan/profile.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::planning {

/// Times what ranks send each other, and what compressing takes. Collective.
/// \param compute computes for a while, beside messages; empty: nobody does
/// \param profile knows its hosts and ranks, and how much memory a rank may take
void time_messages(comm::Communicator& world, const Measured& measured, const std::function<void()>& compute,
                   Profile& profile);

}  // namespace unisono::planning
