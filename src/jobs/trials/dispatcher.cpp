#include "trials/dispatcher.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "unisono/base/errors.hpp"

namespace unisono::jobs {

PlanDispatcher::PlanDispatcher(trials::Plan& plan, records::Journal* journal, EndOfTrials end, const Clock& clock,
                               std::function<records::TrainingOrder(const records::Training&)> order_for,
                               std::function<void(const records::Training&, const records::TrainingResult&)> on_end,
                               std::function<void(const records::Training&)> before_end)
    : plan_(plan),
      journal_(journal),
      end_(std::move(end)),
      watch_(clock),
      order_for_(std::move(order_for)),
      on_end_(std::move(on_end)),
      before_end_(std::move(before_end)) {}

void PlanDispatcher::look_for_end() {
  if (end_.signal && end_.signal() != 0) stopped_ = true;
  if (end_.seconds > 0 && watch_.seconds() > end_.seconds) plan_.begin_no_more();
}

double PlanDispatcher::seconds() const { return std::round(1000 * watch_.seconds()) / 1000; }

Answer PlanDispatcher::take() {
  const std::lock_guard lock(mutex_);
  look_for_end();
  if (stopped_ || plan_.is_complete()) return {.kind = Answer::Kind::stop};
  const auto training = plan_.next();
  if (!training) return {.kind = Answer::Kind::wait};
  if (journal_ != nullptr) journal_->append({{"started", to_json(*training)}, {"at", seconds()}});
  plan_.started(*training);
  return {.kind = Answer::Kind::work, .order = order_for_(*training)};
}

void PlanDispatcher::give(const records::Training& training, const records::TrainingResult& result) {
  const std::lock_guard lock(mutex_);
  if (result.status == records::TrainingStatus::interrupted) {
    stopped_ = true;  // it starts once more when the job is resumed
    return;
  }
  if (before_end_) before_end_(training);
  if (journal_ != nullptr)
    journal_->append({{"ended", to_json(training)}, {"result", to_json(result)}, {"at", seconds()}});
  plan_.ended(training, result);
  if (end_.loss && !training.refit && result.loss() <= *end_.loss) plan_.begin_no_more();
  on_end_(training, result);
}

bool PlanDispatcher::goes_on(const records::Training& training, std::int64_t epochs, double loss) {
  const std::lock_guard lock(mutex_);
  return !end_.median_rule || training.refit || median_.goes_on(training, epochs, loss);
}

bool PlanDispatcher::wants_stop() {
  const std::lock_guard lock(mutex_);
  look_for_end();
  return stopped_;
}

void PlanDispatcher::request_stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
}

}  // namespace unisono::jobs
