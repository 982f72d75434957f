#pragma once

#include <string>
#include <string_view>

namespace unisono::detail {

/// Where a text stops being TOML, and what the parser says of it.
struct TomlError {
  std::size_t line = 0, column = 0;  ///< from 1; a column is a character
  std::string_view description;      ///< toml++'s: "Error while parsing array: encountered end-of-file"
};

/// What is wrong, and where the user sees it.
struct TomlProblem {
  std::size_t line = 0, column = 0;
  std::string text;     ///< "'sgd' is not a value; a string needs quotes: \"sgd\""
  std::string excerpt;  ///< the line with a caret below the column, each after a newline; empty where it is no text
};

/// The parser's error in plain words, at the place where a user would fix it.
TomlProblem explain(const TomlError& error, std::string_view text);

}  // namespace unisono::detail
