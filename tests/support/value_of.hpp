#pragma once

#include <stdexcept>
#include <string>

#include "unisono/base/config.hpp"

namespace unisono {

/// The value of a name. \throws std::out_of_range where the table lacks it
template <typename Enum, std::size_t n>
Enum value_of(const std::string& name, const Named<Enum> (&names)[n]) {
  for (const auto& one : names) {
    if (one.name == name) return one.value;
  }
  throw std::out_of_range(name);
}

}  // namespace unisono
