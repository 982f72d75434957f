#include "unisono/base/clock.hpp"

#include <chrono>

namespace unisono {
namespace {

class SteadyClock final : public Clock {
 public:
  double seconds() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

}  // namespace

const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

}  // namespace unisono
