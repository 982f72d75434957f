#include "unisono/kernels/cuda.hpp"

namespace unisono::kernels {

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      return "bf16";
  }
  return "";
}

}  // namespace unisono::kernels
