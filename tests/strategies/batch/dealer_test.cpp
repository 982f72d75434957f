#include "batch/portions.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <random>

namespace unisono::strategies {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Workers that obey a dealer's orders, in simulated time.
class Simulation {
 public:
  /// \param seconds that a worker takes for a portion
  using Seconds = std::function<double(int worker, int portion)>;
  /// \param delay of a note between a worker and the dealer; empty: none
  Simulation(Dealer& dealer, int portions, int workers, Seconds seconds, std::function<double()> delay = {})
      : dealer_(dealer),
        workers_(static_cast<std::size_t>(workers)),
        times_finished_(static_cast<std::size_t>(portions)),
        seconds_(std::move(seconds)),
        delay_(std::move(delay)) {}

  /// One pass. \return how long it takes
  double pass() {
    std::ranges::fill(times_finished_, 0);
    now_ = 0;
    notes_.clear();
    arrivals_.clear();
    dealer_.begin(now_);
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      const comm::Slice own = dealer_.own(static_cast<int>(i));
      workers_[i] = {};
      for (Index portion = own.first; portion < own.last; ++portion) {
        workers_[i].queue.push_back(static_cast<int>(portion));
      }
      begin_next(i);
    }
    for (const Dealer::Order& order : dealer_.orders(now_)) obey(order);
    while (!dealer_.is_complete()) advance();
    dealer_.plan();
    return now_;
  }

  const std::vector<int>& times_finished() const { return times_finished_; }

 private:
  struct Worker {
    std::deque<int> queue;
    int current = -1;
    double since = 0, until = kNever;
  };

  void begin_next(std::size_t i) {
    Worker& worker = workers_[i];
    worker.current = -1;
    worker.until = kNever;
    if (worker.queue.empty()) return;
    worker.current = worker.queue.front();
    worker.queue.pop_front();
    worker.since = now_;
    worker.until = now_ + seconds_(static_cast<int>(i), worker.current);
  }

  /// Notes of one direction between the dealer and a worker arrive in their order.
  void say(int worker, bool to_dealer, std::function<void()> act) {
    if (!delay_) return act();
    double& last = arrivals_[{worker, to_dealer}];
    last = std::max(last, now_ + delay_());
    notes_.emplace(last, std::move(act));
  }

  void advance() {
    const auto next = std::ranges::min_element(workers_, {}, &Worker::until);
    const double note = notes_.empty() ? kNever : notes_.begin()->first;
    if (note <= std::min(next->until, dealer_.wake_time()) && !notes_.empty()) {
      now_ = note;
      notes_.extract(notes_.begin()).mapped()();
    } else if (dealer_.wake_time() < next->until) {
      now_ = std::max(now_, dealer_.wake_time());
    } else {
      REQUIRE(next->until < kNever);  // somebody must be at work
      now_ = next->until;
      const int number = static_cast<int>(next - workers_.begin()), portion = next->current;
      const double seconds = now_ - next->since;
      ++times_finished_[static_cast<std::size_t>(portion)];
      say(number, true, [=, this] { dealer_.finished(number, portion, seconds, now_); });
      begin_next(static_cast<std::size_t>(number));
    }
    for (const Dealer::Order& order : dealer_.orders(now_)) {
      say(order.worker, false, [=, this] { obey(order); });
    }
  }

  void obey(const Dealer::Order& order) {
    Worker& worker = workers_[static_cast<std::size_t>(order.worker)];
    const auto is_meant = [&](int portion) { return order.portions.first <= portion && portion < order.portions.last; };
    if (order.kind == Dealer::Order::Kind::leave) {
      std::erase_if(worker.queue, is_meant);
      if (is_meant(worker.current)) begin_next(static_cast<std::size_t>(order.worker));
      return;
    }
    for (Index portion = order.portions.first; portion < order.portions.last; ++portion) {
      worker.queue.push_back(static_cast<int>(portion));
    }
    if (worker.current < 0) begin_next(static_cast<std::size_t>(order.worker));
  }

  Dealer& dealer_;
  std::vector<Worker> workers_;
  std::vector<int> times_finished_;
  Seconds seconds_;
  std::function<double()> delay_;
  std::multimap<double, std::function<void()>> notes_;  ///< on their way, by their arrival
  std::map<std::pair<int, bool>, double> arrivals_;     ///< of the last note of each direction
  double now_ = 0;
};

TEST_CASE("every portion of a pass is finished, whatever the workers' speeds and pauses and the notes' delays",
          "[dealer]") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const int workers = std::uniform_int_distribution(1, 9)(random);
    const int portions = std::uniform_int_distribution(1, 70)(random);
    const bool backup = seed % 2 == 0, late = seed % 3 == 0;
    Dealer dealer(portions, workers, backup);
    const auto seconds = [&](int worker, int) {
      const double pause = std::uniform_int_distribution(0, 9)(random) == 0 ? 30.0 : 0.0;
      return 1.0 + worker + std::exponential_distribution(1.0)(random) + pause;
    };
    const auto delay = [&] { return std::exponential_distribution(0.5)(random); };
    Simulation simulation(dealer, portions, workers, seconds, late ? std::function<double()>(delay) : nullptr);
    for (int pass = 0; pass < 3; ++pass) {
      simulation.pass();
      int twice = 0;
      for (const int times : simulation.times_finished()) {
        CHECK(times >= 1);
        twice += times - 1;
      }
      if (!backup && !late) CHECK(twice == 0);
      Index covered = 0;
      for (int worker = 0; worker < workers; ++worker) {
        CHECK(dealer.own(worker).first == covered);
        covered = dealer.own(worker).last;
      }
      CHECK(covered == portions);
    }
  }
}

TEST_CASE("with equal workers nothing moves, and nothing is computed twice", "[dealer]") {
  Dealer dealer(64, 4, true);
  Simulation simulation(dealer, 64, 4, [](int, int) { return 1.0; });
  for (int pass = 0; pass < 5; ++pass) CHECK(simulation.pass() == 16.0);
  CHECK(dealer.moved() == 0);
  CHECK(dealer.repeated() == 0);
}

TEST_CASE("a worker that is three times slower costs little", "[dealer]") {
  // Equal shares take 16 · 3 = 48; all work at its speed takes 64 / (3 + 1/3) = 19.2.
  Dealer dealer(64, 4, true);
  Simulation simulation(dealer, 64, 4, [](int worker, int) { return worker == 2 ? 3.0 : 1.0; });
  CHECK(simulation.pass() <= 21.0);
  for (int pass = 0; pass < 4; ++pass) CHECK(simulation.pass() <= 21.0);
  CHECK(dealer.own(2).last - dealer.own(2).first < 10);  // it begins with a share of its speed
}

TEST_CASE("a portion whose worker hangs is given to an idle one", "[dealer]") {
  const auto hangs = [](int worker, int portion) { return worker == 1 && portion == 9 ? 1000.0 : 1.0; };
  {
    Dealer dealer(16, 2, true);
    CHECK(Simulation(dealer, 16, 2, hangs).pass() < 20);
    CHECK(dealer.repeated() == 1);
  }
  Dealer dealer(16, 2, false);
  CHECK(Simulation(dealer, 16, 2, hangs).pass() >= 1000);
  CHECK(dealer.repeated() == 0);
}

}  // namespace
}  // namespace unisono::strategies
