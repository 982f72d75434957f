#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace unisono::apply {

/// A message in the encoding of Protocol Buffers (https://protobuf.dev/programming-guides/encoding): fields by their
/// numbers, in the order in which they are added. A field that is added several times is a list.
class ProtoMessage {
 public:
  ProtoMessage& integer(std::uint32_t field, std::int64_t value) {
    key(field, kVarint);
    varint(static_cast<std::uint64_t>(value));
    return *this;
  }
  ProtoMessage& number(std::uint32_t field, float value);
  ProtoMessage& text(std::uint32_t field, std::string_view bytes) {
    key(field, kLength);
    varint(bytes.size());
    bytes_.append(bytes);
    return *this;
  }
  ProtoMessage& message(std::uint32_t field, const ProtoMessage& inner) { return text(field, inner.bytes_); }

  const std::string& bytes() const { return bytes_; }

 private:
  static constexpr std::uint32_t kVarint = 0, kLength = 2, kFourBytes = 5;

  void key(std::uint32_t field, std::uint32_t kind) { varint(std::uint64_t{field} << 3U | kind); }
  void varint(std::uint64_t value);

  std::string bytes_;
};

}  // namespace unisono::apply
