#include <catch2/catch.hpp>
#include <string>

#include "config_settings.hpp"
#include "unisono/base/config.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

/// What parsing complains of.
std::string toml_complaint(const std::string& text) {
  TestSettings settings;
  try {
    parse_config({"a.toml", text, {}}, settings.visitor());
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a text that is not TOML is refused with what is wrong, its line, and a caret at the column", "[config]") {
  const auto wrong = GENERATE(values<Wrong>({
      {"kind = sgd", "1:8: 'sgd' is not a value; a string needs quotes: \"sgd\"\n  1 | kind = sgd\n    |        ^"},
      {"a = 1\nkind = \"sgd\nb = 2",
       "2:12: the string is not closed: a quote is missing at its end\n  2 | kind = \"sgd\n    |            ^"},
      {"kind = sgd\"", "1:8: the string sgd\" needs a quote at both ends\n  1 | kind = sgd\"\n    |        ^"},
      {"kind = “sgd”",
       "1:8: “sgd” has curly quotes; strings need straight ones: \" or '\n  1 | kind = “sgd”\n    |        ^"},
      {"a = True", "1:5: 'True' is not a value; write true\n  1 | a = True\n    |     ^"},
      {"a = yes",
       "1:5: 'yes' is not a value; write true or false, or a string in quotes: \"yes\"\n  1 | a = yes\n    |     ^"},
      {"a = 0.1.2", "1:5: '0.1.2' is not a number; a string needs quotes: \"0.1.2\"\n  1 | a = 0.1.2\n    |     ^"},
      {"a = .5",
       "1:5: '.5' is not a value: a number has digits on both sides of its point, and a string needs quotes\n  1 | a = "
       ".5\n    |     ^"},
      {"a = 99999999999999999999",
       "1:5: the number 99999999999999999999 is too large or too small\n  1 | a = 99999999999999999999\n    |     ^"},
      {"[train]\nepochs = ", "2:10: the key has no value\n  2 | epochs = \n    |          ^"},
      {"epochs: 3", "1:7: a key and its value are joined by '=', not by ':'\n  1 | epochs: 3\n    |       ^"},
      {"epochs\n", "1:7: '=' is missing here, between a key and its value\n  1 | epochs\n    |       ^"},
      {"a = 3 // why",
       "1:7: this does not belong to the value before it: a line holds one key and its value, a list needs brackets, a "
       "string needs quotes, and a comment begins with #\n  1 | a = 3 // why\n    |       ^"},
      {"a = 1\n\n a = 2", "3:2: the key 'a' is given twice (the first is in line 1)\n  3 |  a = 2\n    |  ^"},
      {"[t]\na = 1\n[u]\na = 1\na = 2",
       "5:1: the key 'a' is given twice (the first is in line 4)\n  5 | a = 2\n    | ^"},
      {"[train]\n[train]", "2:1: the table [train] is given twice (the first is in line 1)\n  2 | [train]\n    | ^"},
      {"a = 1\n[a]", "2:1: 'a' has a value already, and cannot be a table as well\n  2 | [a]\n    | ^"},
      {"[train\nepochs = 3",
       "1:7: the bracket ] is missing at the end of the table's name\n  1 | [train\n    |       ^"},
      {"[train] epochs = 3",
       "1:9: a table's name stands alone on its line: begin a new one here\n  1 | [train] epochs = 3\n    |         ^"},
      {"a = [1, 2\nb = 3",
       "2:1: a comma is missing before this, or the bracket ] at the end of the array\n  2 | b = 3\n    | ^"},
      {"a = [1, 2,\n[b]\nc = 1",
       "2:2: the array that began above is not closed: the bracket ] is missing at its end\n  2 | [b]\n    |  ^"},
      {"a = { b = 1,\n c = 2 }",
       "1:13: a table in braces stands on one line: the brace } is missing at its end\n  1 | a = { b = 1,\n    |       "
       "      ^"},
      {"a = \"x\\d\"",
       "1:8: this escape sequence is not valid: write \\\\ for a backslash, or put the string in "
       "single quotes\n  1 | a = \"x\\d\"\n    |        ^"},
      {"\t\"ä\" = b", "1:8: 'b' is not a value; a string needs quotes: \"b\"\n  1 | \t\"ä\" = b\n    | \t      ^"},
      {"ä = 1",
       "1:1: a line begins with a key (of the letters A-Z, a-z, 0-9, _ and -), with [ or with #\n  1 | ä = 1\n    | ^"},
  }));
  CHECK(toml_complaint(wrong.text) == "a.toml:" + wrong.complaint);
}

TEST_CASE("a line that is no text, or too long, is not shown", "[config]") {
  CHECK(toml_complaint("\x89HDF") == "a.toml:1:1: this is not text in UTF-8; is it a config file?");
  CHECK(toml_complaint("a = \"\x01\"") ==
        "a.toml:1:6: a string may not hold control characters; write them as \\u and 4 digits");
  const std::string number(120, '1');
  CHECK(toml_complaint("a = " + number) == "a.toml:1:5: the number " + number +
                                               " is too large or too small\n  1 | a = " + number.substr(0, 96) +
                                               "\n    |     ^");
  CHECK(toml_complaint("a = \"" + std::string(120, 'x') + "\" b").find('\n') == std::string::npos);
}

TEST_CASE("no message is that of the parser's library", "[config]") {
  // Every character in turn, in the midst of a text that holds all that TOML has, and its beginnings.
  const std::string text =
      "[a]\nb.c = [1, 2.5e3, \"x\", 'y', { d = 07:30:00, e = true }, 0x1F]\n[[f]]\ng = 2020-01-02\n";
  for (std::size_t at = 0; at <= text.size(); ++at) {
    for (int c = 1; c < 128; ++c) {
      const std::string found = toml_complaint(text.substr(0, at) + static_cast<char>(c) + text.substr(at));
      if (found.find("rror while") != std::string::npos || found.find("expected") != std::string::npos) FAIL(found);
    }
    const std::string found = toml_complaint(text.substr(0, at));
    if (found.find("rror while") != std::string::npos || found.find("ncountered") != std::string::npos) FAIL(found);
  }
}

}  // namespace
}  // namespace unisono
