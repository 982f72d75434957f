#pragma once

#include <string>

namespace unisono::records {

/// A name as a field of a CSV file: in quotes where it holds a comma, a quote or the end of a line (RFC 4180).
std::string csv_field(const std::string& name);

/// A name as a field of a CSV file that people open in spreadsheets: as csv_field, and an apostrophe comes before a
/// name that begins with =, +, - or @ and is no number, or with a tab, which a spreadsheet would take for a formula.
std::string csv_text(const std::string& name);

}  // namespace unisono::records
