#include "unisono/base/printable.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

TEST_CASE("control characters and bytes that are no text are shown by their numbers", "[printable]") {
  CHECK(printable("Zürich 東京 🙂, a\tb\nc") == "Zürich 東京 🙂, a\tb\nc");
  CHECK(printable("\x1b[2J\x1b]0;owned\x07") == "\\u001b[2J\\u001b]0;owned\\u0007");
  CHECK(printable("a\rb\x7f") == "a\\u000db\\u007f");
  CHECK(printable("\xc2\x9b"
                  "2J") == "\\u009b2J");  // CSI as one character
  CHECK(printable("\xe2\x80\xae"
                  "abc") == "\\u202eabc");
  CHECK(printable("\x9b\xe9t\xc3") == "\\x9b\\xe9t\\xc3");
  CHECK(printable("\xc0\x9b\xed\xa0\x80\xf4\x90\x80\x80") == "\\xc0\\x9b\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
  CHECK(printable(std::string("\0a", 2)) == "\\u0000a");
}

TEST_CASE("a name stays on one line", "[printable]") {
  CHECK(on_one_line("two\nlines\tand\x1b") == "two\\nlines\\tand\\u001b");
}

TEST_CASE("later lines of a message are indented", "[printable]") {
  CHECK(printable_message("a.toml:1:2: wrong\n  1 | x\n    | ^") == "a.toml:1:2: wrong\n  1 | x\n    | ^");
  CHECK(printable_message("column 'a\nunisono: all is well'") == "column 'a\n  unisono: all is well'");
  CHECK(printable_message("a\n b\n") == "a\n   b\n");
}

TEST_CASE("folders whose names are no UTF-8 are refused", "[printable]") {
  CHECK_NOTHROW(require_utf8_folder("runs/Zürich"));
  for (const char* path : {"runs/Z\xfcrich", "\xff", "a\xc3"}) CHECK_THROWS_AS(require_utf8_folder(path), ConfigError);
}

}  // namespace
}  // namespace unisono
