#include "dense/convert.hpp"

namespace unisono::data {

void convert(Storage storage, const std::byte* stored, std::size_t count, float a, float b, float* values) {
  with_stored(storage, stored, [=](const auto* x) {
    for (std::size_t i = 0; i < count; ++i) values[i] = a * to_float(x[i]) + b;
  });
}

void convert(Storage storage, const std::byte* stored, std::size_t count, const float* a, const float* b,
             float* values) {
  with_stored(storage, stored, [=](const auto* x) {
    for (std::size_t i = 0; i < count; ++i) values[i] = a[i] * to_float(x[i]) + b[i];
  });
}

}  // namespace unisono::data
