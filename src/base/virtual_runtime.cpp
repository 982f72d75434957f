#include "unisono/base/virtual_runtime.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

#include "fiber.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/threads.hpp"

namespace unisono {
namespace {

/// Computations on threads of this machine. Whoever waits for one makes it himself, if no thread has begun it yet; else
/// he makes others meanwhile.
class Computations {
 public:
  struct Job {
    std::function<void()> work;
    enum class State { waits, runs, done } state = State::waits;
    std::exception_ptr error = {};
  };

  explicit Computations(int threads) : threads_("computing for simulated workers", threads) {
    for (int thread = 0; thread < threads; ++thread) threads_.start([this] { serve(); });
  }
  ~Computations() {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }

  void begin(const std::shared_ptr<Job>& job) {
    if (threads_.size() == 0) return;
    const std::lock_guard lock(mutex_);
    jobs_.push_back(job);
    changed_.notify_one();
  }
  /// Returns when the job is done.
  void finish(Job& job) {
    std::unique_lock lock(mutex_);
    if (job.state == Job::State::waits) return make(job, lock);
    while (job.state != Job::State::done) {
      if (const std::shared_ptr<Job> other = next()) {
        make(*other, lock);
      } else {
        done_.wait(lock, [&] { return job.state == Job::State::done; });
      }
    }
  }

 private:
  /// The first one that no thread has begun; null: there is none.
  std::shared_ptr<Job> next() {
    while (!jobs_.empty()) {
      const std::shared_ptr<Job> job = std::move(jobs_.front());
      jobs_.pop_front();
      if (job->state == Job::State::waits) return job;
    }
    return nullptr;
  }
  void make(Job& job, std::unique_lock<std::mutex>& lock) {
    job.state = Job::State::runs;
    lock.unlock();
    std::exception_ptr error;
    try {
      job.work();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    job.error = error;
    job.state = Job::State::done;
    done_.notify_all();
  }
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
      if (ends_) return;
      if (const std::shared_ptr<Job> job = next()) make(*job, lock);
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_, done_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool ends_ = false;
  Threads threads_;
};

}  // namespace

class VirtualRuntime::Scheduler {
 public:
  /// Work of a worker, and who waits for its end.
  struct Work {
    Work(std::function<void()> work, StackPool& stacks, int of) : fiber(std::move(work), stacks), worker(of) {}
    Fiber fiber;
    int worker;
    std::vector<Work*> joiners = {};
  };
  using WorkPtr = std::shared_ptr<Work>;

  Scheduler(int threads, Cost cost, double begin) : cost_(std::move(cost)), now_(begin), computations_(threads - 1) {}

  void run(int workers, const std::function<void(int)>& body, const std::function<void()>& stuck) {
    workers_.resize(static_cast<std::size_t>(workers));
    for (int worker = 0; worker < workers; ++worker) {
      start([&body, worker] { body(worker); }, worker);
    }
    while (!alive_.empty()) {
      if (events_.empty()) look_once_more();
      if (events_.empty()) stuck();
      if (events_.empty()) {
        throw std::logic_error("simulation: everybody waits, and nothing will happen; this is an error in the program");
      }
      handle_next();
    }
  }

  WorkPtr start(std::function<void()> work, int worker) {
    auto started = std::make_shared<Work>(std::move(work), stacks_, worker);
    alive_.emplace(started.get(), started);
    schedule(now(), started.get());
    return started;
  }
  void join(Work& work) {
    if (work.fiber.has_ended()) return;
    work.joiners.push_back(&running());
    running().fiber.suspend();
  }
  void sleep(double seconds) {
    schedule(now() + std::max(seconds, 0.0), &running());
    running().fiber.suspend();
  }
  void compute(std::int64_t examples, const std::function<void()>& work, double first,
               const std::function<void(const PassUntil&)>& hand_on) {
    Worker& own = workers_[static_cast<std::size_t>(running().worker)];
    const double seconds = cost_(running().worker, examples, own.computations++);
    ++count_;
    const auto job = begin([&work] { work(); });
    const double start = now();
    const PassUntil pass_until = [&](double share) { sleep(start + share * seconds - now()); };
    pass_until(first);
    finish(*job);
    if (!hand_on) return;
    hand_on(pass_until);
    pass_until(1);
  }

  std::shared_ptr<Computations::Job> begin(std::function<void()> work) {
    auto job = std::make_shared<Computations::Job>(Computations::Job{std::move(work)});
    computations_.begin(job);
    return job;
  }
  void finish(Computations::Job& job) {
    computations_.finish(job);
    if (job.error) std::rethrow_exception(job.error);
  }

  void block(const void* key) {
    blocked_[key].push_back(&running());
    running().fiber.suspend();
  }
  void wake(const void* key) {
    const auto found = blocked_.find(key);
    if (found == blocked_.end()) return;
    for (Work* work : found->second) schedule(now(), work);
    blocked_.erase(found);
  }
  void block_until(const std::function<bool()>& done) {
    if (done()) return;
    workers_[static_cast<std::size_t>(running().worker)].looking.push_back({&running(), &done});
    running().fiber.suspend();
  }
  /// Lets all blocked work of a worker look whether it may go on.
  void look(int worker) {
    std::vector<Looking>& looking = workers_[static_cast<std::size_t>(worker)].looking;
    std::erase_if(looking, [this](const Looking& one) {
      if (!(*one.done)()) return false;
      schedule(now(), one.work);
      return true;
    });
  }
  /// Lets all blocked work look several times: what it waits for may need no more than that.
  void look_once_more() {
    constexpr int kTimes = 10;
    for (int i = 0; i < kTimes && events_.empty(); ++i) {
      for (std::size_t worker = 0; worker < workers_.size(); ++worker) look(static_cast<int>(worker));
    }
  }
  void at(double seconds, std::function<void()> act) {
    push({std::max(seconds, now()), next_++, nullptr, std::move(act)});
  }

  Work& running() {
    if (running_ == nullptr) throw std::logic_error("simulation: only simulated workers may wait");
    return *running_;
  }
  double now() const { return now_; }
  std::int64_t count() const { return count_; }

 private:
  struct Event {
    double seconds;
    std::uint64_t number;
    Work* work;                                 ///< that goes on; null: `act` happens
    std::function<void()> act;                  ///< may be empty where `work` is not null
    bool operator<(const Event& other) const {  // of a heap: the last one is first
      return seconds != other.seconds ? seconds > other.seconds : number > other.number;
    }
  };
  struct Looking {
    Work* work;
    const std::function<bool()>* done;
  };
  struct Worker {
    std::uint64_t computations = 0;
    std::vector<Looking> looking = {};
  };

  void schedule(double seconds, Work* work) { push({seconds, next_++, work, {}}); }
  void push(Event event) {
    events_.push_back(std::move(event));
    std::push_heap(events_.begin(), events_.end());
  }
  void handle_next() {
    std::pop_heap(events_.begin(), events_.end());
    const Event event = std::move(events_.back());
    events_.pop_back();
    now_ = event.seconds;
    if (event.work == nullptr) return event.act();
    go_on(*event.work);
  }
  void go_on(Work& work) {
    running_ = &work;
    work.fiber.resume();
    running_ = nullptr;
    const int worker = work.worker;
    if (work.fiber.has_ended()) {
      for (Work* joiner : work.joiners) schedule(now(), joiner);
      alive_.erase(&work);
    }
    look(worker);
  }

  StackPool stacks_;
  Cost cost_;
  std::atomic<double> now_;  ///< computations on other threads may read it
  std::uint64_t next_ = 0;
  std::int64_t count_ = 0;
  std::vector<Event> events_;  ///< a heap
  std::unordered_map<const Work*, WorkPtr> alive_;
  std::unordered_map<const void*, std::vector<Work*>> blocked_;
  std::vector<Worker> workers_;
  Work* running_ = nullptr;
  Computations computations_;  ///< ends before all that it uses
};

namespace {

/// \tparam Scheduler VirtualRuntime's
template <typename Scheduler>
class SimulatedWork final : public StartedWork {
 public:
  SimulatedWork(Scheduler& scheduler, typename Scheduler::WorkPtr work)
      : scheduler_(scheduler), work_(std::move(work)) {}
  void join() override { scheduler_.join(*work_); }

 private:
  Scheduler& scheduler_;
  typename Scheduler::WorkPtr work_;
};

/// Work on threads of the machine.
template <typename Scheduler, typename Job>
class MachineWork final : public StartedWork {
 public:
  MachineWork(Scheduler& scheduler, std::shared_ptr<Job> job) : scheduler_(scheduler), job_(std::move(job)) {}
  void join() override { scheduler_.finish(*job_); }

 private:
  Scheduler& scheduler_;
  std::shared_ptr<Job> job_;
};

}  // namespace

VirtualRuntime::VirtualRuntime(int threads, Cost cost, double seconds_per_update, double begin)
    : scheduler_(std::make_unique<Scheduler>(threads, std::move(cost), begin)),
      seconds_per_update_(seconds_per_update) {}
VirtualRuntime::~VirtualRuntime() = default;

double VirtualRuntime::seconds() const { return scheduler_->now(); }
void VirtualRuntime::sleep(double seconds) const { scheduler_->sleep(seconds); }

std::unique_ptr<StartedWork> VirtualRuntime::start(std::function<void()> work) const {
  return std::make_unique<SimulatedWork<Scheduler>>(*scheduler_,
                                                    scheduler_->start(std::move(work), scheduler_->running().worker));
}

void VirtualRuntime::compute(std::int64_t examples, const std::function<void()>& work) const {
  scheduler_->compute(examples, work, 1, {});
}

void VirtualRuntime::compute(std::int64_t examples, const std::function<void()>& work, double first,
                             const std::function<void(const PassUntil&)>& hand_on) const {
  scheduler_->compute(examples, work, first, hand_on);
}

void VirtualRuntime::update(std::int64_t parameters, const std::function<void()>& work) const {
  const auto begun = begin([&work] { work(); });
  sleep(seconds_per_update_ * static_cast<double>(parameters));
  begun->join();
}

std::shared_ptr<StartedWork> VirtualRuntime::begin(std::function<void()> work) const {
  return std::make_shared<MachineWork<Scheduler, Computations::Job>>(*scheduler_, scheduler_->begin(std::move(work)));
}

void VirtualRuntime::run(int workers, const std::function<void(int)>& body, const std::function<void()>& stuck) {
  scheduler_->run(workers, body, stuck);
}

int VirtualRuntime::worker() const { return scheduler_->running().worker; }
void VirtualRuntime::at(double seconds, std::function<void()> act) const { scheduler_->at(seconds, std::move(act)); }
void VirtualRuntime::block_until(const std::function<bool()>& done) const { scheduler_->block_until(done); }
void VirtualRuntime::poke(int worker) const { scheduler_->look(worker); }
void VirtualRuntime::block(const void* key) const { scheduler_->block(key); }
void VirtualRuntime::wake(const void* key) const { scheduler_->wake(key); }
std::int64_t VirtualRuntime::computations() const { return scheduler_->count(); }

}  // namespace unisono
