#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace unisono {

/// How deep the tables and arrays of a config may be nested, and the objects and arrays of a JSON file. Parsers, copies
/// and destructors of such values call themselves once a level; a text of a few hundred kilobytes could use up the
/// stack.
constexpr int kMostNested = 256;

/// Where the tables and arrays of a text in TOML are nested more than kMostNested deep: the offset of the first byte
/// that is deeper. The steps of dotted keys count as levels. A text that is no TOML may give nothing.
std::optional<std::size_t> where_toml_is_too_deep(std::string_view text);

/// \return a text in JSON, if its objects and arrays are nested at most kMostNested deep; the text may be no JSON
/// \param where names the file in the message
/// \throws DataError if they are deeper
std::string_view shallow_json(std::string_view text, std::string_view where);

}  // namespace unisono
