#include "unisono/parallel/timed_exchange.hpp"

namespace unisono::parallel {

/// Makes a call and adds to the run's seconds how long it was blocked by messages and by stragglers.
template <typename Call>
TimedExchange::Took TimedExchange::count(Call call) {
  const HeldUp before = exchange_->held_up();
  const double device_before = backend_.waited_seconds();
  call();
  const HeldUp after = exchange_->held_up();
  Took took;
  took.device = backend_.waited_seconds() - device_before;
  took.held_up.communication = after.communication - before.communication - took.device;
  took.held_up.stragglers = after.stragglers - before.stragglers;
  seconds_.exposed_communication += took.held_up.communication;
  seconds_.straggler_wait += took.held_up.stragglers;
  return took;
}

void TimedExchange::ready(const MicroBatchPlace& place, Index first, Index last) {
  const Took took = count([&] { exchange_->ready(place, first, last); });
  seconds_.compute -= took.held_up.communication + took.held_up.stragglers;
}

void TimedExchange::finish() {
  const Took took = count([&] { exchange_->finish(); });
  seconds_.compute += took.device;
}

}  // namespace unisono::parallel
