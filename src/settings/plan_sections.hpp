#pragma once

#include "unisono/settings/plans.hpp"

namespace unisono::settings {

/// Parses the sections that a config file has.
void parse_sections(ConfigVisitor& parser, Plans& plans);

}  // namespace unisono::settings
