#include "import/unpack.hpp"

#include <zlib.h>

#include <catch2/catch.hpp>

#include "unisono/base/errors.hpp"

using namespace unisono::data;
using unisono::DataError;

namespace {

/// Gives a text in pieces of a few bytes.
std::string unpacked_text(const std::string& packed, std::size_t piece) {
  const auto source = unpacked(bytes_of(packed, "x"));
  std::string text;
  std::vector<char> buffer(piece);
  for (std::size_t count = piece; count == piece;) {
    count = source->read(buffer);
    text.append(buffer.data(), count);
  }
  return text;
}

std::string gzip_of(std::string text) {
  std::string packed(text.size() + 100, '\0');
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

TEST_CASE("what is not packed is read as it is", "[import]") {
  for (const std::string text : {"", "a", "abc", "\x1F", "\x28\xB5\x2F", "a longer text"}) {
    for (const std::size_t piece : {1, 3, 100}) CHECK(unpacked_text(text, piece) == text);
  }
}

TEST_CASE("members of gzip follow each other, and zeros may follow them", "[import]") {
  const std::string text = "to be or not to be";
  for (const std::size_t piece : {1, 7, 100}) {
    CHECK(unpacked_text(gzip_of(text), piece) == text);
    CHECK(unpacked_text(gzip_of(text) + gzip_of("") + gzip_of("!"), piece) == text + "!");
    CHECK(unpacked_text(gzip_of(text) + std::string(700, '\0'), piece) == text);
  }
}

TEST_CASE("a packed text that is cut or damaged anywhere is a data error, or gives the text", "[import]") {
  const std::string text = "to be or not to be", packed = gzip_of(text);
  for (std::size_t size = 2; size < packed.size(); ++size) {
    CHECK_THROWS_AS(unpacked_text(packed.substr(0, size), 100), DataError);
  }
  for (std::size_t at = 10; at < packed.size(); ++at) {  // a change of the header may mean nothing
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    CHECK_THROWS_AS(unpacked_text(damaged, 100), DataError);
  }
  for (const std::string& more :
       {std::string("x"), std::string("\x1Fz"), std::string("\x1F\x8B"), std::string("\0\0x", 3)}) {
    CHECK_THROWS_AS(unpacked_text(packed + more, 100), DataError);
  }
}
