#include "unisono/kernels/optional.hpp"

#include <fmt/format.h>

#include "unisono/base/errors.hpp"

namespace unisono::kernels {

void refuse_missing_kernels(std::string_view owner, std::string_view platform) {
  throw ConfigError(fmt::format("{} has no {} kernel yet: train on the CPU, with device = \"cpu\"", owner, platform));
}

}  // namespace unisono::kernels
