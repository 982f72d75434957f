#pragma once

#include <string>
#include <vector>

namespace unisono::data {

/// A SentencePiece model of these pieces, in the wire format of protocol buffers (sentencepiece_model.proto).
inline std::string small_model(const std::vector<std::string>& pieces) {
  const auto field = [](int number, const std::string& bytes) {
    return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
  };
  constexpr char kUnknownPiece = 2, kControlPiece = 3;
  std::string model;
  const auto add = [&](const std::string& piece, char kind) {
    const std::string score("\x15\0\0\x80\xBF", 5);  // −1
    model += field(1, field(1, piece) + score + (kind > 0 ? std::string{'\x18', kind} : ""));
  };
  add("<unk>", kUnknownPiece);
  add("<s>", kControlPiece);
  add("</s>", kControlPiece);
  for (const std::string& piece : pieces) add(piece, 0);
  return model;
}

}  // namespace unisono::data
