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

/// Before what reads numbers without a sign, which takes -1 for a large one.
inline const CLI::Validator kNoSign(
    [](std::string& text) { return text.starts_with('-') ? text + " is below 0" : std::string(); }, "");

/// "512MiB", as bytes.
inline const CLI::Validator kSize(
    [](std::string& text) { return text.starts_with('-') ? text + " is below 0" : CLI::AsSizeValue(false)(text); },
    "SIZE [b, kb(=1024b), ...]");

}  // namespace unisono::cli
