#include "unisono/parallel/timed_exchange.hpp"

namespace unisono::parallel {

/// Makes a call and adds to the run's seconds how long it was blocked by messages and by stragglers.
template <typename Call>
TimedExchange::Elapsed TimedExchange::count(Call call) {
  const BlockedSeconds before = exchange_->blocked();
  const double device_before = backend_.waited_seconds();
  call();
  const BlockedSeconds after = exchange_->blocked();
  Elapsed elapsed;
  elapsed.device = backend_.waited_seconds() - device_before;
  elapsed.blocked.communication = after.communication - before.communication - elapsed.device;
  elapsed.blocked.stragglers = after.stragglers - before.stragglers;
  seconds_.exposed_communication += elapsed.blocked.communication;
  seconds_.straggler_wait += elapsed.blocked.stragglers;
  return elapsed;
}

void TimedExchange::ready(const MicroBatchPlace& place, Index first, Index last) {
  const Elapsed elapsed = count([&] { exchange_->ready(place, first, last); });
  seconds_.compute -= elapsed.blocked.communication + elapsed.blocked.stragglers;
}

void TimedExchange::finish() {
  const Elapsed elapsed = count([&] { exchange_->finish(); });
  seconds_.compute += elapsed.device;
}

}  // namespace unisono::parallel
