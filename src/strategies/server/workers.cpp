#include "server/workers.hpp"

#include <algorithm>

namespace unisono::strategies {

void ServedWorker::train(const Segment& segment) {
  make_steps(segment);
  client_.leave();
  account();
}

std::int64_t ServedWorker::next_pull(std::int64_t clock, const Pulled& pulled) const {
  const std::int64_t next = clock + pulled.granted;
  if (settings_.consistency == Consistency::asynchronous || pulled.granted == 0) return next;
  return std::clamp(pulled.complete + settings_.staleness + 1, clock + 1, next);
}

double ServedWorker::share_of(const data::Batch& batch) const {
  return static_cast<double>(batch.rank_step_size) / static_cast<double>(std::max<Index>(1, batch.global_size));
}

void ServedWorker::count(const data::Batch& batch) {
  ++steps_;
  examples_ += batch.rank_step_size;
}

void ServedWorker::account() {
  run_.seconds.exposed_communication += client_.message_seconds() - message_seconds_;
  run_.seconds.straggler_wait += client_.held_seconds() - held_seconds_;
  message_seconds_ = client_.message_seconds();
  held_seconds_ = client_.held_seconds();
}

}  // namespace unisono::strategies
