#include "batch/portion_worker.hpp"

#include <algorithm>

namespace unisono::strategies {

PortionWorker::PortionWorker(comm::Communicator& workers, parallel::CommonFate& fate, int portions, double& waited,
                             const Clock& clock)
    : workers_(workers),
      fate_(fate),
      waited_(waited),
      clock_(clock),
      own_(comm::slice_of(portions, workers.rank(), workers.size())) {}

void PortionWorker::work(std::int64_t pass, const Compute& compute) {
  portions_.clear();
  for (Index portion = own_.first; portion < own_.last; ++portion) portions_.push_back(static_cast<int>(portion));
  over_ = false;
  listen();
  while (!over_) {
    read_notes();
    if (over_) break;
    if (portions_.empty()) {
      wait_for_note();
      continue;
    }
    current_ = portions_.front();
    portions_.pop_front();
    leave_current_ = false;
    const Stopwatch watch(clock_);
    const bool finished = compute(current_, [this] {
      read_notes();
      return !over_ && !leave_current_;
    });
    if (finished) {
      say({.kind = Note::Kind::finished,
           .first = current_,
           .last = current_ + 1,
           .pass = pass,
           .seconds = watch.seconds()});
    }
    current_ = -1;
  }
  say({.kind = Note::Kind::gone, .pass = pass});
  for (Sent& one : sent_) fate_.wait(*one.request);
  sent_.clear();
}

void PortionWorker::listen() {
  listening_ = workers_.start_receive(std::as_writable_bytes(std::span(&heard_, 1)), 0, kToWorker);
}

void PortionWorker::read_notes() {
  fate_.require_all();
  while (!over_ && listening_->test()) {
    listening_->wait();
    obey(heard_);
    if (!over_) listen();
  }
}

void PortionWorker::wait_for_note() {
  const ScopedTimer timer(waited_, clock_);
  fate_.wait(*listening_);
  obey(heard_);
  if (!over_) listen();
}

void PortionWorker::obey(const Note& note) {
  switch (note.kind) {
    case Note::Kind::take:
      for (int portion = note.first; portion < note.last; ++portion) portions_.push_back(portion);
      return;
    case Note::Kind::leave:
      std::erase_if(portions_, [&](int portion) { return note.first <= portion && portion < note.last; });
      leave_current_ |= note.first <= current_ && current_ < note.last;
      return;
    case Note::Kind::over:
      own_ = {note.first, note.last};
      over_ = true;
      return;
    case Note::Kind::finished:
    case Note::Kind::gone:
      return;
  }
}

void PortionWorker::say(const Note& note) {
  std::erase_if(sent_, [](Sent& one) {
    if (!one.request->test()) return false;
    one.request->wait();
    return true;
  });
  Sent& one = sent_.emplace_back(Sent{note, nullptr});
  one.request = workers_.start_send(std::as_bytes(std::span(&one.note, 1)), 0, kToCoordinator);
}

}  // namespace unisono::strategies
