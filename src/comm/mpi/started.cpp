#include "started.hpp"

namespace unisono::comm::mpi {

Started::Started(MpiJob& job, std::unique_ptr<Operation> operation, const Place& place, std::atomic<int>* in_flight)
    : job_(job),
      operation_(std::move(operation)),
      place_(place),
      in_flight_(in_flight),
      counted_(in_flight != nullptr ? ++*in_flight : 0),
      entry_(job.progress(), *this) {
  test();  // it begins now
}

Started::~Started() {
  bool done = false;
  {
    const std::lock_guard lock(job_.progress().mutex());
    done = done_;
  }
  if (!done) job_.let_go(*this);
}

void Started::wait() {
  job_.wait([this] { return entry_.done(); }, place_);
}

bool Started::test() {
  const std::lock_guard lock(job_.progress().mutex());
  job_.progress().poll();
  return entry_.done();
}

bool Started::wait_unless(const std::function<bool()>& enough) {
  bool done = false;
  job_.wait([&] { return (done = entry_.done()) || enough(); }, place_);
  return done;
}

std::vector<std::size_t> Started::wait_any(std::span<Started* const> any, const std::function<bool()>& enough) {
  std::vector<std::size_t> done;
  const auto find_done = [&] {
    for (std::size_t i = 0; i < any.size(); ++i) {
      if (any[i]->entry_.done()) done.push_back(i);
    }
    return !done.empty();
  };
  Place place = any.front()->place_;
  for (const Started* one : any) {
    if (one->place_.peer != place.peer) place.peer = Place::kNobody;
  }
  // Other threads of this process work, or wait, at the same time.
  any.front()->job_.wait([&] { return find_done() || enough(); }, place, Waiting::sleeps);
  return done;
}

void Started::wait_for_arrivals() {
  job_.wait([this] { return entry_.done() || operation_->all_arrived(); }, place_);
}

bool Started::advance() {
  if (!operation_->advance()) return false;
  if (in_flight_ != nullptr) --*in_flight_;
  done_ = true;
  return true;
}

}  // namespace unisono::comm::mpi
