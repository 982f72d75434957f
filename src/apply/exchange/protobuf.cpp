#include "exchange/protobuf.hpp"

#include <bit>
#include <cstring>

namespace unisono::apply {

static_assert(std::endian::native == std::endian::little);

ProtoMessage& ProtoMessage::number(std::uint32_t field, float value) {
  key(field, kFourBytes);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  bytes_.append(bytes, sizeof value);
  return *this;
}

void ProtoMessage::varint(std::uint64_t value) {
  constexpr std::uint64_t kMore = 0x80;
  for (; value >= kMore; value >>= 7U) bytes_ += static_cast<char>(value | kMore);
  bytes_ += static_cast<char>(value);
}

}  // namespace unisono::apply
