#include "unisono/base/threads.hpp"

#include <fmt/format.h>

#include <atomic>
#include <system_error>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/resources.hpp"

namespace unisono {

Threads::Threads(std::string purpose, int wanted, const Runtime& runtime)
    : purpose_(std::move(purpose)), wanted_(wanted), runtime_(runtime) {}

Threads::~Threads() { join(); }

void Threads::start(std::function<void()> work) {
  try {
    threads_.reserve(threads_.size() + 1);  // what has been started is never lost
    threads_.push_back(runtime_.start(std::move(work)));
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
  for (const auto& thread : threads_) thread->join();
  threads_.clear();
}

struct ThreadTeam::State {
  const std::function<void(int)>* work = nullptr;
  std::atomic<unsigned> round{0};  ///< grows when there is work, or when the threads must end (work is null)
  std::atomic<int> busy{0};
  std::vector<std::exception_ptr> errors;
  const Runtime& runtime;
  Threads threads;

  State(int size, std::string purpose, const Runtime& of)
      : errors(static_cast<std::size_t>(size)), runtime(of), threads(std::move(purpose), size - 1, of) {}

  void do_part(int thread) {
    try {
      (*work)(thread);
    } catch (...) {
      errors[static_cast<std::size_t>(thread)] = std::current_exception();
    }
  }

  void serve(int thread) {
    for (unsigned seen = 0;; ++seen) {
      round.wait(seen, std::memory_order_acquire);
      if (work == nullptr) return;
      do_part(thread);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) busy.notify_one();
    }
  }

  void start(const std::function<void(int)>* next) {
    work = next;
    busy.store(threads.size(), std::memory_order_relaxed);
    round.fetch_add(1, std::memory_order_release);
    round.notify_all();
  }

  void wait() {
    for (int left = busy.load(std::memory_order_acquire); left != 0; left = busy.load(std::memory_order_acquire)) {
      busy.wait(left, std::memory_order_acquire);
    }
  }
};

ThreadTeam::ThreadTeam(int size, std::string purpose, const Runtime& runtime)
    : state_(std::make_unique<State>(size, std::move(purpose), runtime)) {
  if (runtime.is_virtual()) return;  // starting work costs nothing there
  try {
    for (int thread = 1; thread < size; ++thread) {
      state_->threads.start([state = state_.get(), thread] { state->serve(thread); });
    }
  } catch (...) {
    state_->start(nullptr);
    throw;
  }
}

ThreadTeam::~ThreadTeam() { state_->start(nullptr); }

int ThreadTeam::size() const { return static_cast<int>(state_->errors.size()); }

void ThreadTeam::run(const std::function<void(int)>& work) {
  if (state_->runtime.is_virtual()) {
    state_->work = &work;
    for (int thread = 1; thread < size(); ++thread) {
      state_->threads.start([state = state_.get(), thread] { state->do_part(thread); });
    }
    state_->do_part(0);
    state_->threads.join();
  } else {
    state_->start(&work);
    state_->do_part(0);
    state_->wait();
  }
  for (std::exception_ptr& error : state_->errors) {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }
}

void ThreadTeam::run_each(std::size_t first, std::size_t last,
                          const std::function<void(int thread, std::size_t i)>& work) {
  std::atomic<std::size_t> next{first};
  run([&](int thread) {
    for (std::size_t i = next++; i < last; i = next++) work(thread, i);
  });
}

}  // namespace unisono
