#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace unisono::cli {

// Of numbers: CLI11's own checks name both ends of what a double holds.

inline const CLI::Validator kPositive(
    [](std::string& text) { return CLI::PositiveNumber(text).empty() ? std::string() : text + " is not above 0"; },
    "POSITIVE");
inline const CLI::Validator kNotNegative(
    [](std::string& text) { return CLI::NonNegativeNumber(text).empty() ? std::string() : text + " is below 0"; },
    "NONNEGATIVE");

}  // namespace unisono::cli
