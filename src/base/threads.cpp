#include "unisono/base/threads.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "thread_limits.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {

Threads::Threads(std::string purpose, int wanted) : purpose_(std::move(purpose)), wanted_(wanted) {}

Threads::~Threads() { join(); }

void Threads::start(std::function<void()> work) {
  try {
    threads_.reserve(threads_.size() + 1);  // what has been started is never lost
    threads_.emplace_back(std::move(work));
  } catch (const std::system_error& error) {
    const std::string limits = thread_limits();
    throw DeviceError(
        fmt::format("{} needs {} more thread{}, but the system started {}: {}{}; raise the limit, or use fewer threads "
                    "(train.threads, or strategy.threads where they share a model) or ranks",
                    purpose_, wanted_, wanted_ == 1 ? "" : "s", threads_.empty() ? "none" : std::to_string(size()),
                    error.code().message(), limits.empty() ? "" : " (" + limits + ")"));
  }
}

void Threads::join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace unisono
