#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

#include "unisono/base/clock.hpp"
#include "unisono/records/journal.hpp"
#include "unisono/trials/median_rule.hpp"
#include "unisono/trials/trial_plan.hpp"

namespace unisono::jobs {

/// What a group of ranks is told when it asks for work.
struct Answer {
  enum class Kind {
    work,
    wait,  ///< nothing can start before another training has ended: ask again
    stop   ///< all has ended, or the job was asked to stop
  };
  Kind kind = Kind::wait;
  records::TrainingOrder order = {};  ///< of work
};

/// Hands out trainings. Its functions may be called from several threads, and never wait for a training.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  virtual Answer take() = 0;
  virtual void give(const records::Training& training, const records::TrainingResult& result) = 0;
  /// Notes what a training has reached so far. \param loss lower is better \return whether it should go on
  virtual bool goes_on(const records::Training& training, std::int64_t epochs, double loss) = 0;
  /// Whether trainings that are running must stop now.
  virtual bool wants_stop() = 0;
  /// No other training starts, and those that are running stop.
  virtual void request_stop() = 0;
};

/// When a job hands out nothing more, and when it ends a training.
struct EndOfTrials {
  double seconds = 0;                ///< since the job began; 0: never
  std::optional<double> loss = {};   ///< as soon as a trial's is so low
  bool median_rule = false;          ///< ends trainings that are worse than most others were at the same epoch
  std::function<int()> signal = {};  ///< the stop signal that was received, or 0
};

/// Rank 0's: asks the plan, and writes what happens to the journal.
class PlanDispatcher final : public Dispatcher {
 public:
  /// \param plan brought up to date with the journal \param journal null: nothing is written
  /// \param order_for makes an order \param on_end called after each training that has ended, with the lock held
  /// \param before_end the same, but before the journal says so: for what must be there if the job is killed then
  PlanDispatcher(trials::Plan& plan, records::Journal* journal, EndOfTrials end, const Clock& clock,
                 std::function<records::TrainingOrder(const records::Training&)> order_for,
                 std::function<void(const records::Training&, const records::TrainingResult&)> on_end,
                 std::function<void(const records::Training&)> before_end = {});

  Answer take() override;
  void give(const records::Training& training, const records::TrainingResult& result) override;
  bool goes_on(const records::Training& training, std::int64_t epochs, double loss) override;
  bool wants_stop() override;
  void request_stop() override;
  /// Whether it handed out `stop` before the plan was complete.
  bool was_stopped() const { return stopped_; }

 private:
  void look_for_end();
  /// Since the job began, for the journal.
  double seconds() const;

  std::mutex mutex_;
  trials::Plan& plan_;
  records::Journal* journal_;
  EndOfTrials end_;
  Stopwatch watch_;
  std::function<records::TrainingOrder(const records::Training&)> order_for_;
  std::function<void(const records::Training&, const records::TrainingResult&)> on_end_;
  std::function<void(const records::Training&)> before_end_;
  trials::MedianRule median_;
  bool stopped_ = false;
};

}  // namespace unisono::jobs
