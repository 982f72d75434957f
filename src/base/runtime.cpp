#include "unisono/base/runtime.hpp"

#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>

#include "unisono/base/denormals.hpp"

namespace unisono {
namespace {

class StartedThread final : public StartedWork {
 public:
  explicit StartedThread(std::function<void()> work)
      : thread_([work = std::move(work)] {
          const FlushDenormals flush;
          work();
        }) {}
  void join() override { thread_.join(); }

 private:
  std::thread thread_;
};

}  // namespace

double Runtime::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Runtime::sleep(double seconds) const { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

std::unique_ptr<StartedWork> Runtime::start(std::function<void()> work) const {
  return std::make_unique<StartedThread>(std::move(work));
}

void Runtime::compute(std::int64_t, const std::function<void()>& work) const { work(); }

void Runtime::compute(std::int64_t, const std::function<void()>& work, double,
                      const std::function<void(const PassUntil&)>& hand_on) const {
  work();
  hand_on([](double) {});
}

void Runtime::update(std::int64_t, const std::function<void()>& work) const { work(); }

void Runtime::block(const void*) const { throw std::logic_error("threads of the machine wait by its own means"); }
void Runtime::wake(const void*) const {}

const Runtime& machine_runtime() {
  static const Runtime runtime;
  return runtime;
}

const Clock& steady_clock() { return machine_runtime(); }

void Condition::wait(std::unique_lock<std::mutex>& lock) {
  if (!runtime_.is_virtual()) return changed_.wait(lock);
  lock.unlock();
  runtime_.block(this);
  lock.lock();
}

void Condition::notify_all() {
  if (!runtime_.is_virtual()) return changed_.notify_all();
  runtime_.wake(this);
}

}  // namespace unisono
