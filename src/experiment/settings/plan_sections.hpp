#pragma once

#include "unisono/experiment/plans.hpp"

namespace unisono::experiment {

/// Parses the sections that a config file has.
void parse_sections(ConfigVisitor& parser, Plans& plans);

}  // namespace unisono::experiment
