#include "run/stop.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <mutex>
#include <utility>

#include "unisono/session/job.hpp"

namespace unisono::session {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR1};
constexpr double kSecondsBetween = 0.05;
constexpr std::int64_t kMostSteps = 1000;

// `timeout` and batch systems send a signal to a process and again to its group: that counts as one request.
constexpr double kOneWishSeconds = 0.25;

// Global, because a signal handler can access nothing else.
volatile std::sig_atomic_t received_signal = 0;
std::atomic<double> first_demand = 0;  // when the first TERM or INT came, by the monotonic clock; 0: none did
static_assert(std::atomic<double>::is_always_lock_free, "a signal handler may not wait for a lock");

// Signals belong to the process. If ranks are threads, they share one set of handlers.
struct Listening {
  std::mutex mutex;
  bool on = false, held = false;
  int listeners = 0;
  std::array<struct sigaction, kSignals.size()> previous_actions;
} listening;

double monotonic_seconds() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// The signal handler. The first signal asks runs to stop; another TERM or INT ends the process at once.
void heed(int signal) {
  if (received_signal == 0) received_signal = signal;
  if (signal == SIGUSR1) return;
  const double now = monotonic_seconds();
  double first = 0;
  if (first_demand.compare_exchange_strong(first, now) || now - first < kOneWishSeconds) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // ends the process when this handler returns
}

void listen_locked() {
  if (std::exchange(listening.on, true)) return;
  received_signal = 0;
  first_demand = 0;
  struct sigaction action {};
  action.sa_handler = heed;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &listening.previous_actions[i]);
}

}  // namespace

void hold_stop_signals() {
  const std::lock_guard lock(listening.mutex);
  listen_locked();
  listening.held = true;
}

StopSignals::StopSignals() {
  const std::lock_guard lock(listening.mutex);
  listen_locked();
  ++listening.listeners;
}

StopSignals::~StopSignals() {
  const std::lock_guard lock(listening.mutex);
  if (--listening.listeners > 0) return;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (listening.held) {
      std::signal(kSignals[i], SIG_IGN);  // the process ends now, with the exit code of what it did
    } else {
      sigaction(kSignals[i], &listening.previous_actions[i], nullptr);
    }
  }
  listening.on = false;
}

int StopSignals::received() const { return received_signal; }

StopAgreement::StopAgreement(comm::Communicator& group, std::function<StopWish()> wish, std::int64_t first_step,
                             const Clock& clock, std::function<bool()> checkpoint_is_due)
    : group_(group),
      wish_(std::move(wish)),
      checkpoint_is_due_(std::move(checkpoint_is_due)),
      last_step_(first_step),
      next_step_(first_step + 1),
      since_last_(clock) {}

StopWish StopAgreement::agreed(std::int64_t step) {
  wants_checkpoint_ = false;
  if (step < next_step_) return StopWish::none;
  const std::int64_t since = std::max<std::int64_t>(1, step - last_step_);
  const double step_seconds = since_last_.restart() / static_cast<double>(since);
  std::array<std::int64_t, 3> largest = {static_cast<std::int64_t>(wish_()),
                                         static_cast<std::int64_t>(step_seconds * 1e9),
                                         checkpoint_is_due_ && checkpoint_is_due_() ? 1 : 0};
  group_.allreduce_max(std::span<std::int64_t>(largest));
  const double steps = kSecondsBetween / (static_cast<double>(largest[1]) * 1e-9 + 1e-9);
  last_step_ = step;
  // At most twice as many as have been measured: a few fast steps say little about those that follow.
  next_step_ = step + std::clamp(static_cast<std::int64_t>(steps), std::int64_t{1}, std::min(kMostSteps, 2 * since));
  wants_checkpoint_ = largest[2] != 0;
  return static_cast<StopWish>(largest[0]);
}

}  // namespace unisono::session
