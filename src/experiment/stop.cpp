#include "stop.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>

#include "unisono/experiment/train.hpp"

namespace unisono {
namespace {

constexpr std::array kSignals = {SIGTERM, SIGINT, SIGUSR1};
constexpr double kSecondsBetween = 0.05;
constexpr std::int64_t kMostSteps = 1000;

// A signal handler can reach nothing else.
volatile std::sig_atomic_t received_signal = 0;
std::array<struct sigaction, kSignals.size()> previous_actions;

void remember(int signal) {
  if (received_signal == 0) received_signal = signal;
}

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : kSignals) sigaddset(&signals, signal);
  return signals;
}

}  // namespace

void hold_stop_signals() {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

StopSignals::StopSignals() {
  received_signal = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &previous_actions[i]);
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &previous_actions[i], nullptr);
}

int StopSignals::received() const { return received_signal; }

StopAgreement::StopAgreement(Communicator& world, const StopSignals& signals, std::int64_t first_step)
    : world_(world), signals_(signals), last_step_(first_step), next_step_(first_step + 1) {}

int StopAgreement::agreed(std::int64_t step) {
  if (step < next_step_) return 0;
  const double step_seconds = since_last_.restart() / static_cast<double>(std::max<std::int64_t>(1, step - last_step_));
  std::array<std::int64_t, 2> largest = {signals_.received(), static_cast<std::int64_t>(step_seconds * 1e9)};
  world_.allreduce_max(std::span<std::int64_t>(largest));
  const double steps = kSecondsBetween / (static_cast<double>(largest[1]) * 1e-9 + 1e-9);
  last_step_ = step;
  next_step_ = step + std::clamp(static_cast<std::int64_t>(steps), std::int64_t{1}, kMostSteps);
  return static_cast<int>(largest[0]);
}

}  // namespace unisono
