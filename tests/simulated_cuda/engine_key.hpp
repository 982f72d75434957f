#pragma once
// By which name a table of cuDNN's engines knows a graph: all that decides which engines take it, but for the batch.

#include <cstdint>
#include <string>

namespace simulated {

struct EngineKey {
  std::string operation;  ///< forward, data, filter; and what follows: " bias", " bias relu"
  bool halves = false;    ///< bf16 tensors, floats otherwise
  bool result_halves = false;
  std::int64_t in[3] = {}, filters[4] = {};  ///< channels, height, width; outputs, inputs of a group, height, width
  std::int64_t padding[2] = {}, stride[2] = {}, dilation[2] = {};

  /// "filter bf16 float, 16x32x32, 16x16x3x3, 1 1, 1 1, 1 1"
  std::string text() const {
    const auto joined = [](const auto& numbers, const char* between) {
      std::string text;
      for (const auto number : numbers) text += (text.empty() ? "" : between) + std::to_string(number);
      return text;
    };
    return operation + (halves ? " bf16" : " float") + (result_halves ? " bf16, " : " float, ") + joined(in, "x") +
           ", " + joined(filters, "x") + ", " + joined(padding, " ") + ", " + joined(stride, " ") + ", " +
           joined(dilation, " ");
  }
};

}  // namespace simulated
