#pragma once

#include <cstdlib>
#include <string>

#include "simulated_cuda/control.hpp"

namespace unisono {

/// So many simulated devices, for the length of a test.
class Devices {
 public:
  explicit Devices(int count) {
    setenv("UNISONO_SIMULATED_DEVICES", std::to_string(count).c_str(), 1);
    simulated::restart();
  }
  ~Devices() {
    unsetenv("UNISONO_SIMULATED_DEVICES");
    simulated::restart();
  }
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;
};

}  // namespace unisono
