#pragma once

#include <string>
#include <string_view>

namespace unisono {

/// A text as a terminal or a log may show it. Names of classes, columns, words and runs come from files of others: a
/// control character in them could move the cursor, hide lines or set the title of the window. So "\u001b" stands for
/// ESC, and "\xff" for a byte that is no UTF-8; ends of lines and tabs stay. Text in JSON keeps its meaning.
std::string printable(std::string_view text);

/// A name as a terminal or a log may show it within a line: like `printable`, and "\n" and "\t" stand for ends of lines
/// and tabs.
std::string on_one_line(std::string_view name);

/// A message as a terminal or a log may show it: like `printable`, and lines after the first one begin with two spaces
/// at least, so that none of them looks like another message.
std::string printable_message(std::string_view text);

/// Whether a text is UTF-8 throughout.
bool is_utf8(std::string_view text);

/// Refuses a folder in which commands could not find a run again: its name is stored in configs and JSON files, which
/// hold UTF-8 alone. \throws ConfigError
void require_utf8_folder(const std::string& path);

}  // namespace unisono
