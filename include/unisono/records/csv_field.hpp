#pragma once

#include <string>

namespace unisono::records {

/// A name as a field of a CSV file: in quotes where it holds a comma, a quote or the end of a line (RFC 4180).
std::string csv_field(const std::string& name);

}  // namespace unisono::records
